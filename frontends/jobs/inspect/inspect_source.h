// Identifies and reads a checkpoint, an exported folder or a shard file.
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
  std::string function;  // function of a package; empty: its only or default one
};

using Inspected = std::variant<Checkpoint, Manifest, LoadedShard>;

// Reads a path with a format's extension as a shard, a folder with manifest.json as an export, and
// any other folder as a checkpoint. Errors: inspect.kind for any other extension; those of the
// format's reader, read_manifest() and open_source().
Result<Inspected> inspect_source(const InspectOptions& options);

// JSON of kind "checkpoint", with sizes and parameters; with_tensors adds each tensor's type.
nlohmann::ordered_json checkpoint_json(const Checkpoint& checkpoint, bool with_tensors);

// JSON of kind "export", with the fields of manifest.json. Errors: those of to_json(Manifest).
Result<nlohmann::ordered_json> described_export_json(const Manifest& manifest);

// JSON of kind "shard", with ports, counts and the IR as text.
nlohmann::ordered_json shard_json(const Shard& shard);

// Number of layers with experts.
int64_t count_moe_layers(const ModelConfig& config);

}  // namespace moec
