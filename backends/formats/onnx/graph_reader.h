// Reads an ONNX graph as a shard: sources, nodes and ports in order. Types are inferred and
// compared with those that the graph states.
#pragma once

#include <string>

#include "backends/formats/onnx/onnx_metadata.h"
#include "ir/graph/loaded_shard.h"

namespace onnx {
class GraphProto;
}

namespace moec {

// `folder` holds the external data. The places of errors do not name the file.
Result<LoadedShard> read_graph(const onnx::GraphProto& graph, const OnnxMetadata& metadata,
                               const std::string& folder);

}  // namespace moec
