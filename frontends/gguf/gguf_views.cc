#include "frontends/gguf/gguf_views.h"

namespace moec {

std::optional<TensorRange> gguf_range(const GgufTensor& tensor) {
  const auto dtype = plain_dtype(tensor.type);
  if (!dtype) return std::nullopt;
  return TensorRange{tensor.file, tensor.offset, {*dtype, tensor.dims}};
}

std::optional<WeightView> gguf_view(const GgufTensor& tensor) {
  const auto range = gguf_range(tensor);
  return range ? std::optional(tensor_view(tensor.name, range->type)) : std::nullopt;
}

}  // namespace moec
