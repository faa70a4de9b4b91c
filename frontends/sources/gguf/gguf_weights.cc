#include "frontends/sources/gguf/gguf_weights.h"

#include <fmt/format.h>

#include "ir/base/json.h"

namespace moec {

std::optional<TensorRange> gguf_range(const GgufTensor& tensor) {
  Type type{DType::u8, tensor.dims};
  // The dims are untrusted, so their product can overflow.
  if (!checked_elements(tensor.dims)) return std::nullopt;
  if (const std::optional<DType> plain = plain_dtype(tensor.type)) {
    type.dtype = *plain;
  } else {
    // The last axis holds the bytes of blocks, so a scalar needs an axis.
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

// Returns the integer codes of a type. For a type with unevenly spaced values, returns codes of
// similar size.
static IntegerCodes codes_like(BlockType type) {
  constexpr int64_t kBitsOfFour = 5;  // maximum bits per element of 4-bit codes with scales
  const BlockFormat& format = block_format(type);
  const bool is_small = 8 * format.bytes <= kBitsOfFour * format.elements;
  return block_format(type).codes.value_or(IntegerCodes{is_small ? 4 : 8, 32});
}

// Returns the bits per element, including the element's share of an f32 scale and an f32 zero
// point.
static double bits_of(const IntegerCodes& codes) {
  const double parameters = codes.zeros ? 64 : 32;
  return static_cast<double>(codes.bits) + parameters / static_cast<double>(codes.elements);
}

StoredWeights gguf_storage(const Gguf& model) {
  StoredWeights stored;
  for (const GgufTensor& tensor : model.tensors) {
    // Plain types have one element per block and need no codes.
    if (block_format(tensor.type).elements == 1) continue;
    const IntegerCodes codes = codes_like(tensor.type);
    const bool first = stored.coding == WeightCoding::plain;
    if (first || bits_of(codes) > bits_of(stored.codes)) stored.codes = codes;
    stored.coding = WeightCoding::gguf_blocks;
  }
  return stored;
}

Result<WeightView> gguf_view(const Gguf& model, const GgufTensor& tensor) {
  // For blocks, the range is of bytes, which UnblockStep decodes.
  const std::optional<TensorRange> range = gguf_range(tensor);
  const BlockFormat& format = block_format(tensor.type);
  const bool decoded = format.values == BlockValues::decoded;
  if (!range || (!decoded && !plain_dtype(tensor.type)))
    return fail("gguf.no_values",
                fmt::format("moec cannot decode {}{}", format.name, to_string(tensor.dims)),
                "use a file with this tensor in another type, such as q4_k, q8_0 or bf16",
                {.tensor = printable(tensor.name), .file = at(model.files, tensor.file).path});
  WeightView view = tensor_view(tensor.name, range->type);
  return decoded ? then(std::move(view), UnblockStep{tensor.type}) : view;
}

}  // namespace moec
