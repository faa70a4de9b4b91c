// Reads an exported shard back into the IR, independent of the export's format.
#pragma once

#include <string>

#include "backends/manifest/manifest.h"
#include "ir/graph/loaded_shard.h"

namespace moec {

// Reads the graph of one token width. `folder` is the export's folder. Errors: format.weights_only,
// those of the format's reader.
Result<LoadedShard> read_shard(const Manifest& manifest, const std::string& folder,
                               const manifest::Width& width);

}  // namespace moec
