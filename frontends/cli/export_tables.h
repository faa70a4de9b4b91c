// The tables beside the shards: embedding rows and RoPE rows, in the shards' element type.
#pragma once

#include <string>

#include "backends/manifest/manifest.h"
#include "backends/weights/weight_reader.h"
#include "ir/plan.h"

namespace moec {

// Streams the embedding to OUT/name; `report` gets the bytes read and overflows of its cast.
Result<manifest::TableFile> write_embedding(const Plan& plan, const WeightReader& reader,
                                            const std::string& folder, const std::string& name,
                                            StreamReport& report);

// Rows for positions 0 … context-1: r/2 cosines, then r/2 sines.
Result<manifest::RopeTable> write_rope(const Plan& plan, const std::string& folder,
                                       const std::string& name);

}  // namespace moec
