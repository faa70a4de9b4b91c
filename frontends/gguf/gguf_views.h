// The tensors of a GGUF file as weights.
#pragma once

#include <optional>

#include "frontends/gguf/gguf_header.h"
#include "ir/graph/weight_table.h"

namespace moec {

// The entry of a weight table; nothing for types that moec has no element type for.
std::optional<TensorRange> gguf_range(const GgufTensor& tensor);

// The values, in the tensor's sizes; nothing as above.
std::optional<WeightView> gguf_view(const GgufTensor& tensor);

}  // namespace moec
