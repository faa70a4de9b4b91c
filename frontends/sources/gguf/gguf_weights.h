// Tensors of a GGUF model as weights: the ranges of their bytes, and views of their values.
#pragma once

#include <optional>

#include "frontends/sources/gguf/gguf.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"
#include "ir/graph/weight_view.h"
#include "ir/model/model_config.h"

namespace moec {

// Returns the range of a tensor's bytes. f32, f16, bf16, i32 and i64 keep their type and the
// tensor's shape; other types become u8, with the bytes per row as the last size. Absent for a
// tensor without elements, or with more than 2^48 elements or bytes.
std::optional<TensorRange> gguf_range(const GgufTensor& tensor);

// Returns the files of a model and all tensors that have a range.
WeightTable gguf_weights(const Gguf& model);
// Returns how the model's weights are stored; plain if no tensor is stored in blocks.
StoredWeights gguf_storage(const Gguf& model);

// Returns a view of a tensor's values with the tensor's shape, in f32 if the tensor is stored in
// blocks, otherwise in the stored type. Slices along any axis but the last read no bytes of other
// rows. Error: gguf.no_values (the tensor has no range, or moec does not decode its type).
Result<WeightView> gguf_view(const Gguf& model, const GgufTensor& tensor);

}  // namespace moec
