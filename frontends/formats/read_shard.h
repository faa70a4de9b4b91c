// Reads an exported shard's file back into the IR, whatever format the export has.
#pragma once

#include <string>

#include "backends/manifest/manifest.h"
#include "ir/graph/loaded_shard.h"

namespace moec {

// The graph of one token width of a shard in the exported folder. Errors: those of the format's
// reader (read_onnx, read_coreml).
Result<LoadedShard> read_shard(const Manifest& manifest, const std::string& folder,
                               const manifest::Width& width);

}  // namespace moec
