// Converts an ONNX node to an IR op.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/graph/ops.h"

namespace onnx {
class NodeProto;
}

namespace moec {

// Inputs of read_op() from outside the node.
struct NodeContext {
  std::span<const Type> inputs;  // types of the leading inputs that are not constants; at least one
  Layout layout = Layout::plain;  // of the result, from the metadata
  // Returns the i64 values of the node's input at this index, which must be a constant.
  std::function<Result<std::vector<int64_t>>(int)> integers;
};

// Returns the number of leading inputs of the node that are operands of the op; the remaining
// inputs are sizes and axes. Error onnx.op for an unknown node.
Result<int> operand_count(const onnx::NodeProto& node);

// Returns the op without checking it against its operands. Errors: onnx.attribute, including
// unknown attributes; onnx.constant_input.
Result<OpData> read_op(const onnx::NodeProto& node, const NodeContext& context);

}  // namespace moec
