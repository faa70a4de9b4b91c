// Says what a path holds: a checkpoint, an exported folder or a shard file.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "backends/manifest/manifest.h"
#include "frontends/sources/hf/checkpoint.h"
#include "ir/graph/loaded_shard.h"

namespace moec {

struct InspectOptions {
  std::string source;
  std::optional<std::string> family_file;  // the descriptor to read a checkpoint with
  std::string function;  // of a package that has several; empty: its only or default one
};

using Inspected = std::variant<Checkpoint, Manifest, LoadedShard>;

// A path with the ending of a format is a shard, a folder with manifest.json an export, another
// folder a checkpoint. Errors: inspect.kind for a file of another ending; those of the format's
// reader, of read_manifest() and of open_source().
Result<Inspected> inspect_source(const InspectOptions& options);

}  // namespace moec
