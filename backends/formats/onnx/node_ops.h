// One ONNX node as one op of the IR.
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

// The context that a node's meaning depends on.
struct NodeContext {
  std::span<const Type> inputs;   // types of the inputs before the constant ones, at least one
  Layout layout = Layout::plain;  // that the metadata gives the result
  // The i64 values of the node's input of this index, which must be a constant.
  std::function<Result<std::vector<int64_t>>(int)> integers;
};

// The number of the node's leading inputs that are operands of the op; the others are sizes and
// axes. Error onnx.op for a node that the reader does not know.
Result<int> operand_count(const onnx::NodeProto& node);

// Returns the op without checking it against its operands. Errors: onnx.attribute, also for an
// attribute that the reader does not know; onnx.constant_input.
Result<OpData> read_op(const onnx::NodeProto& node, const NodeContext& context);

}  // namespace moec
