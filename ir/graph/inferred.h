// What infer() takes and gives.
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
  std::vector<Violation> violations;  // when not empty, `results` means nothing
};

// `state_type` tells the type of a declared state, null if there is none of that name.
using StateLookup = std::function<const Type*(std::string_view name)>;

}  // namespace moec
