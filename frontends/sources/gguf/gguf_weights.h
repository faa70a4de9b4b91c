// The tensors of a GGUF model as weights: where their bytes are, and the views that give values.
#pragma once

#include <optional>

#include "frontends/sources/gguf/gguf.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"
#include "ir/graph/weight_view.h"

namespace moec {

// The bytes of a tensor under its own name: f32, f16, bf16, i32 and i64 as such with the tensor's
// sizes, all other types as u8 with the bytes of a row in place of its elements. Nothing for a
// tensor without elements, or with more than 2^48 elements or bytes.
std::optional<TensorRange> gguf_range(const GgufTensor& tensor);

// The files of a model and all tensors that have a range.
WeightTable gguf_weights(const Gguf& model);

// The values of a tensor: in its own type, or in f32 where they are stored in blocks. The view's
// type has the tensor's sizes. Slices along all axes but the last read no bytes of other rows.
// Error: gguf.no_values where the tensor has no range or its type is not decoded.
Result<WeightView> gguf_view(const Gguf& model, const GgufTensor& tensor);

}  // namespace moec
