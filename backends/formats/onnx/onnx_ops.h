// The nodes of a shard's ops in an ONNX graph.
#pragma once

#include <string>

#include "ir/graph/shard.h"

namespace moec {

// True if the op becomes an initializer of the graph. A splat of several elements becomes an Expand
// of a scalar instead, which needs no space in the file.
bool is_initializer(const OpData& data);

// Returns the node name of each op of the shard; empty for ops without a node.
IdMap<OpId, std::string> onnx_op_names(const Shard& shard);

}  // namespace moec
