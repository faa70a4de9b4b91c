#include "frontends/sources/gguf/gguf_weights.h"

#include <fmt/format.h>

#include "ir/base/json.h"

namespace moec {

std::optional<TensorRange> gguf_range(const GgufTensor& tensor) {
  Type type{DType::u8, tensor.dims};
  if (!checked_elements(tensor.dims)) return std::nullopt;
  if (const std::optional<DType> plain = plain_dtype(tensor.type)) {
    type.dtype = *plain;
  } else {
    if (type.dims.empty()) type.dims = {1};
    type.dims.back() = block_row_bytes(tensor.type, type.dims.back());
    if (!checked_elements(type.dims)) return std::nullopt;
  }
  return TensorRange{tensor.file, tensor.offset, std::move(type)};
}

WeightTable gguf_weights(const Gguf& model) {
  WeightTable table;
  table.files = model.files;
  for (const GgufTensor& tensor : model.tensors)
    if (std::optional<TensorRange> range = gguf_range(tensor))
      table.tensors.emplace(tensor.name, std::move(*range));
  return table;
}

Result<WeightView> gguf_view(const Gguf& model, const GgufTensor& tensor) {
  const std::optional<TensorRange> range = gguf_range(tensor);
  const BlockFormat& format = block_format(tensor.type);
  const bool decoded = format.values == BlockValues::decoded;
  if (!range || (!decoded && !plain_dtype(tensor.type)))
    return fail("gguf.no_values",
                fmt::format("values of {}{} cannot be read", format.name, to_string(tensor.dims)),
                "Use a file with this tensor in another type, such as q4_k, q8_0 or bf16.",
                {.tensor = printable(tensor.name), .file = at(model.files, tensor.file).path});
  WeightView view = tensor_view(tensor.name, range->type);
  return decoded ? then(std::move(view), UnblockStep{tensor.type}) : view;
}

}  // namespace moec
