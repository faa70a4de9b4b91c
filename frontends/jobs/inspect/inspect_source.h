// Says what a path holds: a checkpoint, an exported folder or a shard file.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <variant>

#include "backends/manifest/manifest.h"
#include "frontends/sources/family_options.h"
#include "frontends/sources/hf/checkpoint.h"
#include "ir/graph/loaded_shard.h"
#include "ir/graph/shard.h"

namespace moec {

struct InspectOptions {
  std::string source;
  FamilyOptions family;
  std::string function;  // of a package that has several; empty: its only or default one
};

using Inspected = std::variant<Checkpoint, Manifest, LoadedShard>;

// A path with the ending of a format is a shard, a folder with manifest.json an export, another
// folder a checkpoint. Errors: inspect.kind for a file of another ending; those of the format's
// reader, of read_manifest() and of open_source().
Result<Inspected> inspect_source(const InspectOptions& options);

// The kind "checkpoint", with its sizes and parameters. `with_tensors` also lists each tensor with
// its type.
nlohmann::ordered_json checkpoint_json(const Checkpoint& checkpoint, bool with_tensors);

// The kind "export", with the fields of manifest.json. Errors: those of to_json(Manifest).
Result<nlohmann::ordered_json> described_export_json(const Manifest& manifest);

// The kind "shard", with its ports, its counts and its IR as text.
nlohmann::ordered_json shard_json(const Shard& shard);

// The layers of a model that have experts.
int64_t count_moe_layers(const ModelConfig& config);

}  // namespace moec
