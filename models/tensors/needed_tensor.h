// One checkpoint tensor that a model needs.
#pragma once

#include <string>

#include "ir/graph/type.h"

namespace moec {

struct NeededTensor {
  std::string role, name;  // the role as in TensorNames, the name as in the checkpoint
  Dims dims;
  bool operator==(const NeededTensor&) const = default;
};

}  // namespace moec
