// The result types of an op, from its attributes and its operands' types. The numbered constraints
// of ir/OPS.md are checked here and nowhere else: builder, parser and verifier all ask this
// function.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph/ops.h"

namespace moec {

struct Violation {
  std::string code;     // "conv.c3"
  std::string message;  // what was required and what was found
};

struct Inferred {
  std::vector<Type> results;
  std::vector<Violation> violations;  // when not empty, `results` means nothing
};

// `state_type` tells the type of a declared state, null if there is none of that name.
using StateLookup = std::function<const Type*(std::string_view name)>;

Inferred infer(const OpData& data, std::span<const Type> operands, const StateLookup& state_type);

}  // namespace moec
