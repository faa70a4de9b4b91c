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

// A range of the file under the tensor's name.
Result<WeightView> add_range(const TensorReader& tensors, int32_t tensor, const Type& type,
                             WeightTable& table) {
  if (!tensors.is_in_file(tensor))
    return fail_codes(tensors, tensor, "codes and scales must follow the flatbuffer");
  MOEC_ASSIGN(TensorRange range, tensors.range(tensor, type));
  const std::string name = tensors.name(tensor);
  // Weights may share scales, but a name stands for one range.
  const auto [found, is_new] = table.tensors.emplace(name, range);
  if (!is_new && found->second != range)
    return fail("tflite.duplicate_name", "two weights have one name", "export the model again",
                {.tensor = name});
  return tensor_view(name, type);
}

// A weight as the file states it. check_encoding() checks the encoding.
struct Coded {
  AffineEncoding encoding;
  Type type;
  int32_t scales = -1;
};

Result<Coded> read_blocks(const TensorReader& tensors, int32_t tensor,
                          const tflite::BlockwiseQuantization& blocks) {
  Coded coded;
  MOEC_ASSIGN(coded.type, tensors.decoded_type(tensor));
  // Converters write -1 or omit the field, whose default is 0, a tensor that is not zeros.
  if (blocks.zero_points() > 0) return fail_codes(tensors, tensor, "zero points are unsupported");
  coded.encoding = {.bits = 4, .block = {1, blocks.block_size()}};
  coded.scales = blocks.scales();
  MOEC_TRY(tensors.check_index(coded.scales));
  if (tensors.element_type(coded.scales) != TensorType::FLOAT16)
    return fail_codes(tensors, tensor, "the scales of blocks must be f16");
  return coded;
}

}  // namespace

bool is_coded(const TensorReader& tensors, int32_t tensor) {
  return tensors.element_type(tensor) == TensorType::INT4;
}

Result<WeightView> read_coded(const TensorReader& tensors, int32_t tensor, WeightTable& table) {
  const auto* quantization = tensors.quantization(tensor);
  const auto* blocks = quantization ? quantization->details_as_BlockwiseQuantization() : nullptr;
  if (!blocks) return fail_codes(tensors, tensor, "the codes have no blocks with scales");
  MOEC_ASSIGN(const Coded coded, read_blocks(tensors, tensor, *blocks));
  MOEC_TRY(check_encoding(coded.encoding, coded.type));
  if (coded.type.dims.at(1) % coded.encoding.block.at(1) != 0)
    return fail_codes(tensors, tensor, "the block size does not divide the inputs");
  std::vector<WeightView> views;
  for (const StoredPart& part : stored_parts(coded.encoding, coded.type)) {
    const bool is_codes = part.part == WeightPart::codes;
    const Type stored{is_codes ? DType::u8 : DType::f16, part.type.dims};
    MOEC_ASSIGN(WeightView view,
                add_range(tensors, is_codes ? tensor : coded.scales, stored, table));
    views.push_back(is_codes ? std::move(view) : then(std::move(view), CastStep{part.type.dtype}));
  }
  return decoded_view(coded.encoding, coded.type, std::move(views));
}

}  // namespace moec
