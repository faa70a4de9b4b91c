#include "backends/formats/tflite/read_codes.h"

#include "ir/graph/encoding.h"

namespace moec {
namespace {

using tflite::TensorType;

tl::unexpected<Diagnostics> fail_codes(const TensorReader& tensors, int32_t tensor,
                                       std::string cause) {
  return fail("tflite.quantized", std::move(cause), "export the model again",
              {.tensor = tensors.name(tensor)});
}

// The view of a range under a name.
Result<WeightView> add_range(const std::string& name, const TensorRange& range,
                             WeightTable& table) {
  // Weights may share scales, but a name stands for one range.
  const auto [found, is_new] = table.tensors.emplace(name, range);
  if (!is_new && found->second != range)
    return fail("tflite.duplicate_name", "two weights have one name", "export the model again",
                {.tensor = name});
  return tensor_view(name, range.type);
}

// A weight as the file states it. check_encoding() checks the encoding.
struct Coded {
  AffineEncoding encoding;
  Type type;
  int32_t scales = -1;  // a tensor; -1: scales per row
};

Status read_blocks(const TensorReader& tensors, int32_t tensor,
                   const tflite::BlockwiseQuantization& blocks, Coded& coded) {
  // Converters write -1 or omit the field, whose default is 0, a tensor that is not zeros.
  if (blocks.zero_points() > 0) return fail_codes(tensors, tensor, "zero points are unsupported");
  if (coded.encoding.bits != 4)
    return fail_codes(tensors, tensor, "blocks of 8-bit codes are unsupported");
  coded.encoding.block = {1, blocks.block_size()};
  coded.scales = blocks.scales();
  MOEC_TRY(tensors.check_index(coded.scales));
  if (tensors.element_type(coded.scales) != TensorType::FLOAT16)
    return fail_codes(tensors, tensor, "the scales of blocks must be f16");
  return {};
}

Result<Coded> read_encoding(const TensorReader& tensors, int32_t tensor) {
  const auto* quantization = tensors.quantization(tensor);
  if (!quantization) return fail_codes(tensors, tensor, "the codes have no scales");
  Coded coded;
  MOEC_ASSIGN(coded.type, tensors.decoded_type(tensor));
  if (coded.type.rank() != 2) return fail_codes(tensors, tensor, "the codes are not a matrix");
  coded.encoding.bits = tensors.element_type(tensor) == TensorType::INT4 ? 4 : 8;
  coded.encoding.block = {1, coded.type.dims.at(1)};
  if (const auto* blocks = quantization->details_as_BlockwiseQuantization()) {
    MOEC_TRY(read_blocks(tensors, tensor, *blocks, coded));
  } else if (quantization->details()) {
    return fail_codes(tensors, tensor, "this kind of quantization is unsupported");
  }
  MOEC_TRY(check_encoding(coded.encoding, coded.type));
  if (coded.type.dims.at(1) % coded.encoding.block.at(1) != 0)
    return fail_codes(tensors, tensor, "the block size does not divide the inputs");
  if (coded.encoding.bits == 4 && coded.type.dims.at(1) % 2 != 0)
    return fail_codes(tensors, tensor, "rows with an odd number of 4-bit codes are unsupported");
  return coded;
}

Result<WeightView> read_codes(const TensorReader& tensors, int32_t tensor, const Dims& dims,
                              WeightTable& table) {
  if (!tensors.is_in_file(tensor))
    return fail_codes(tensors, tensor, "codes must follow the flatbuffer");
  MOEC_ASSIGN(const TensorRange range, tensors.range(tensor, {DType::u8, dims}));
  return add_range(tensors.name(tensor), range, table);
}

Result<WeightView> read_scales(const TensorReader& tensors, int32_t tensor, const Coded& coded,
                               const Dims& counts, WeightTable& table) {
  if (coded.scales < 0) {
    MOEC_ASSIGN(const TensorRange range, tensors.row_scales(tensor, counts));
    return add_range(tensors.name(tensor) + "/scales", range, table);
  }
  if (!tensors.is_in_file(coded.scales))
    return fail_codes(tensors, tensor, "scales must follow the flatbuffer");
  MOEC_ASSIGN(const TensorRange range, tensors.range(coded.scales, {DType::f16, counts}));
  MOEC_ASSIGN(WeightView view, add_range(tensors.name(coded.scales), range, table));
  return then(std::move(view), CastStep{DType::f32});
}

}  // namespace

bool is_coded(const TensorReader& tensors, int32_t tensor) {
  const TensorType type = tensors.element_type(tensor);
  return type == TensorType::INT4 || type == TensorType::INT8;
}

Result<WeightView> read_coded(const TensorReader& tensors, int32_t tensor, WeightTable& table) {
  MOEC_ASSIGN(const Coded coded, read_encoding(tensors, tensor));
  std::vector<WeightView> views;
  for (const StoredPart& part : stored_parts(coded.encoding, coded.type)) {
    const Dims& dims = part.type.dims;
    MOEC_ASSIGN(WeightView view, part.part == WeightPart::codes
                                     ? read_codes(tensors, tensor, dims, table)
                                     : read_scales(tensors, tensor, coded, dims, table));
    views.push_back(std::move(view));
  }
  return decoded_view(coded.encoding, coded.type, std::move(views));
}

}  // namespace moec
