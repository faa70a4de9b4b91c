// Infers the result types of an op from its attributes and its operands' types. No other code
// checks the numbered op constraints of ir/OPS.md; builder, verifier and readers call this
// function.
#pragma once

#include <span>

#include "ir/graph/inferred.h"
#include "ir/graph/ops.h"

namespace moec {

Inferred infer(const OpData& data, std::span<const Type> operands, const StateLookup& state_type);

}  // namespace moec
