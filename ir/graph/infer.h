// Infers the result types of an op from its attributes and its operands' types. This is the only
// place that checks the numbered constraints of ir/OPS.md; builder, parser and verifier call it.
#pragma once

#include <span>

#include "ir/graph/inferred.h"
#include "ir/graph/ops.h"

namespace moec {

Inferred infer(const OpData& data, std::span<const Type> operands, const StateLookup& state_type);

}  // namespace moec
