// The parameter and result types of infer().
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/type.h"

namespace moec {

struct Violation {
  std::string code;     // "conv.c3"
  std::string message;  // what was required and what was found
};

struct Inferred {
  std::vector<Type> results;
  std::vector<Violation> violations;  // if not empty, `results` is meaningless
};

// Returns the type of a declared state, or null if no state has this name.
using StateLookup = std::function<const Type*(std::string_view name)>;

}  // namespace moec
