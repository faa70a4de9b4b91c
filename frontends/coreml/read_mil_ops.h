// One ML Program operation as one op of the IR.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "frontends/coreml/arguments.h"
#include "ir/graph/ops.h"

namespace moec {

// The names of the values that the operation takes, in the order of the op's operands; all other
// arguments state attributes. A mul that is a negation takes one value. Errors: coreml.op, for an
// operation that is not read, coreml.argument.
Result<std::vector<std::string>> operand_names(const mlmodel::Operation& operation, bool negation);

// What an operation's meaning depends on besides itself.
struct OperationContext {
  const Consts& consts;
  std::span<const Type> operands;  // as operand_names() has them
  Layout layout = Layout::plain;   // that the metadata gives the result
};

// The op, not yet checked against its operands. Error: coreml.argument. An argument or attribute
// that is missing, or not understood, is an error.
Result<OpData> read_op(const mlmodel::Operation& operation, const OperationContext& context);

}  // namespace moec
