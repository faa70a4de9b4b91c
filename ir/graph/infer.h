// The result types of an op, from its attributes and its operands' types. The numbered constraints
// of ir/OPS.md are checked here and nowhere else: builder, parser and verifier all ask this
// function.
#pragma once

#include <span>

#include "ir/graph/inferred.h"
#include "ir/graph/ops.h"

namespace moec {

Inferred infer(const OpData& data, std::span<const Type> operands, const StateLookup& state_type);

}  // namespace moec
