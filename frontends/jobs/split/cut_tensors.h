// Which tensors of a GGUF file are those of experts and routers, by their names: of these a node
// gets its experts' part, all others are the trunk, which all nodes share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "frontends/sources/gguf/gguf.h"
#include "ir/base/diagnostics.h"

namespace moec {

// A tensor with one part for each expert. The parts have the same number of bytes and lie one
// behind the other, whatever the tensor's type.
struct CutTensor {
  size_t tensor = 0;  // index into Gguf::tensors
  int64_t layer = 0;
  size_t axis = 0;  // of GgufTensor::dims, that counts experts; those before it are 1
};

// All of them, in the order of Gguf::tensors. A tensor that merely has the same size, such as a
// shared expert's, is none. Errors:
//   split.no_experts      there are none, or each expert is a tensor of its own
//   split.tensor_dims     the outermost size is not the number of experts
//   split.unknown_tensor  the name says that it belongs to experts, but not how
//   split.router          a layer has experts and no router, or a router and no experts
Result<std::vector<CutTensor>> find_cut_tensors(const Gguf& gguf, int64_t experts);

}  // namespace moec
