// Reads one ML Program operation as one op of the IR.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backends/formats/coreml/mil_arguments.h"
#include "ir/graph/ops.h"

namespace moec {

// The names of the values that the operation takes, in the order of the op's operands; all other
// arguments are attributes. A mul that is a negation takes one value. Errors: coreml.op for an
// operation that the reader does not know, coreml.argument.
Result<std::vector<std::string>> operand_names(const mlmodel::Operation& operation, bool negation);

// The context that an operation's meaning depends on.
struct OperationContext {
  const Consts& consts;
  std::span<const Type> operands;  // as operand_names() has them
  Layout layout = Layout::plain;   // that the metadata gives the result
};

// Returns the op without checking it against its operands. Error coreml.argument, also for an
// argument or attribute that is missing or that the reader does not know.
Result<OpData> read_op(const mlmodel::Operation& operation, const OperationContext& context);

}  // namespace moec
