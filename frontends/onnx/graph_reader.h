// An ONNX graph as a shard: sources, nodes and ports in order, types inferred and compared with
// those that the graph states.
#pragma once

#include <string>

#include "frontends/onnx/onnx_metadata.h"
#include "ir/graph/loaded_shard.h"

namespace onnx {
class GraphProto;
}

namespace moec {

// `folder` is where external data lies. Places name no file yet.
Result<LoadedShard> read_graph(const onnx::GraphProto& graph, const OnnxMetadata& metadata,
                               const std::string& folder);

}  // namespace moec
