// The tables beside the shards: embedding rows and RoPE rows, in the shards' element type.
#pragma once

#include <string>

#include "backends/manifest/manifest.h"
#include "backends/weights/weight_reader.h"
#include "ir/plan.h"

namespace moec {

inline constexpr const char* kEmbeddingFile = "embed.bin";
inline constexpr const char* kRopeFile = "rope.bin";

// Streams the embedding; `report` gets the bytes read and overflows of its cast.
Result<manifest::TableFile> write_embedding(const Plan& plan, const WeightReader& reader,
                                            const std::string& folder, StreamReport& report);

// Rows for positions 0 … context-1: r/2 cosines, then r/2 sines.
Result<manifest::RopeTable> write_rope(const Plan& plan, const std::string& folder);

}  // namespace moec
