// Converts a TFLite operator to an IR op.
#pragma once

#include <tflite_generated.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "backends/formats/tflite/tflite_ops.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/ops.h"

namespace moec {

// Inputs of read_node() from outside the operator.
struct NodeInputs {
  std::span<const Type> operands;  // types of the leading inputs that are operands
  Type result;                     // as the file states it, with the layout of the metadata
  // Returns the values of the operator's input at this index, which must be an i32 constant.
  std::function<Result<std::vector<int64_t>>(uint32_t)> integers;
};

// Returns the number of leading inputs that are operands; the remaining inputs are sizes and axes.
// Error tflite.op for an unknown operator, or one without inputs or outputs.
Result<uint32_t> operand_count(Builtin code, const tflite::Operator& node);

// Returns the op without checking it against its operands. Not for FULLY_CONNECTED, CONV_2D, GELU,
// BROADCAST_TO and TOPK_V2, which SubgraphReader reads. Errors: tflite.option,
// tflite.constant_input.
Result<OpData> read_node(Builtin code, const tflite::Operator& node, const NodeInputs& inputs);

// Fail with tflite.option unless the options are those that moec writes.
Status check_fully_connected(const tflite::Operator& node, int64_t rank);
Status check_conv(const tflite::Operator& node);
Status check_gelu(const tflite::Operator& node);

}  // namespace moec
