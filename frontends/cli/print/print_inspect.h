// What `moec inspect` prints, for people and as JSON.
#pragma once

#include <string>

#include "backends/manifest/manifest.h"
#include "frontends/hf/checkpoint.h"
#include "ir/graph/shard.h"

namespace moec {

// `with_tensors` also lists each tensor of the checkpoint with its type.
void print_checkpoint(const Checkpoint& checkpoint, bool with_tensors);
void print_checkpoint_json(const Checkpoint& checkpoint, bool with_tensors);

// A line on the export, and one for each of its shards.
void print_manifest(const Manifest& manifest);

// The fields of manifest.json, beside those that every report has.
void print_manifest_json(const std::string& manifest);

// The shard's ports, its counts and its IR as text.
void print_shard_json(const Shard& shard);

}  // namespace moec
