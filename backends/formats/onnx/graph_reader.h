// Reads an ONNX graph as a shard: sources, nodes and ports in order. Infers the types and checks
// them against the types that the graph states.
#pragma once

#include <string>

#include "backends/emit/graph_metadata.h"
#include "ir/graph/loaded_shard.h"

namespace onnx {
class GraphProto;
}

namespace moec {

// `folder` contains the external data. Errors do not name the file; the caller adds it.
Result<LoadedShard> read_graph(const onnx::GraphProto& graph, const GraphMetadata& metadata,
                               const std::string& folder);

}  // namespace moec
