// What `moec inspect` prints for people.
#pragma once

#include "backends/manifest/manifest.h"
#include "frontends/sources/hf/checkpoint.h"

namespace moec {

// `with_tensors` also lists each tensor of the checkpoint with its type.
void print_checkpoint(const Checkpoint& checkpoint, bool with_tensors);

// A line on the export, and one for each of its shards.
void print_manifest(const Manifest& manifest);

}  // namespace moec
