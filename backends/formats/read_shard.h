// Reads an exported shard's file back into the IR, in whatever format the export is.
#pragma once

#include <string>

#include "backends/manifest/manifest.h"
#include "ir/graph/loaded_shard.h"

namespace moec {

// The graph of one token width of a shard in the exported folder. Errors: format.weights_only,
// those of the format's reader.
Result<LoadedShard> read_shard(const Manifest& manifest, const std::string& folder,
                               const manifest::Width& width);

}  // namespace moec
