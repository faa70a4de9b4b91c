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
  std::string message;  // the requirement and the actual value
};

struct Inferred {
  std::vector<Type> results;
  std::vector<Violation> violations;  // if not empty, `results` is meaningless
};

// Returns the type of the declared state `name`, or null if there is none.
using StateLookup = std::function<const Type*(std::string_view name)>;

}  // namespace moec
