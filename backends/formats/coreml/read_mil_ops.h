// Converts an ML Program operation to an IR op.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backends/formats/coreml/mil_arguments.h"
#include "ir/graph/ops.h"

namespace moec {

// Returns the names of the operation's operands, in the order of the IR op's operands; all other
// arguments are attributes. A mul that represents a negation has one operand. Errors: coreml.op for
// an unknown operation, coreml.argument.
Result<std::vector<std::string>> operand_names(const mlmodel::Operation& operation, bool negation);

// Inputs of read_op() from outside the operation.
struct OperationContext {
  const Consts& consts;
  std::span<const Type> operands;  // in the order of operand_names()
  Layout layout = Layout::plain;   // of the result, from the metadata
};

// Returns the op without checking it against its operands. Error: coreml.argument, including
// missing and unknown arguments and attributes.
Result<OpData> read_op(const mlmodel::Operation& operation, const OperationContext& context);

}  // namespace moec
