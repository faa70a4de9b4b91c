// Reads a TFLite subgraph as a shard: operators and ports in order, sources at their first use.
// Infers the types and checks them against the types that the file states.
#pragma once

#include "backends/emit/graph_metadata.h"
#include "backends/formats/tflite/tensor_reader.h"
#include "ir/graph/loaded_shard.h"

namespace moec {

// A subgraph and the names of its ports; without a signature, those of its tensors.
struct SignedSubgraph {
  const tflite::SubGraph* subgraph = nullptr;
  const tflite::SignatureDef* signature = nullptr;  // may be null
};

// Errors do not name the file; the caller adds it.
Result<LoadedShard> read_subgraph(const TfliteFile& file, const SignedSubgraph& of,
                                  const GraphMetadata& metadata);

}  // namespace moec
