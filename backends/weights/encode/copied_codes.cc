#include "backends/weights/encode/copied_codes.h"

#include <fmt/format.h>

#include <cmath>

#include "backends/weights/encode/part_values.h"
#include "backends/weights/views/convert.h"

namespace moec {

CopiedCodes::CopiedCodes(const AffineEncoding& encoding, const Type& type, CodeForm form)
    : bits_(static_cast<int>(encoding.bits)),
      excess_(form == CodeForm::excess ? 1 << (encoding.bits - 1) : 0),
      left_(type.elements()),
      row_(type.dims.back()),
      filled_(code_dims(encoding, type).back()),
      writer_(bits_) {}

uint8_t CopiedCodes::code_of(int number) const {
  return static_cast<uint8_t>(static_cast<unsigned>(number + excess_) & ((1u << bits_) - 1));
}

Status CopiedCodes::add(std::span<const std::byte> tile, const TileSink& sink) {
  // The last block of a row is padded with the code of 0, as WeightEncoder does.
  const std::vector<uint8_t> filler(static_cast<size_t>(filled_ - row_), code_of(0));
  std::vector<uint8_t> codes;
  for (const float number : floats_of(DType::f32, tile)) {
    // The views deliver codes as f32, which represents integers of 8 bits exactly.
    codes.push_back(code_of(static_cast<int>(number)));
    if (++in_row_ < row_) continue;
    codes.insert(codes.end(), filler.begin(), filler.end());
    in_row_ = 0;
  }
  left_ -= static_cast<int64_t>(tile.size() / sizeof(float));
  writer_.add(codes);
  return writer_.flush(left_ == 0, sink);
}

Result<std::vector<std::byte>> copied_parameters(WeightPart part,
                                                 std::span<const std::byte> parameters,
                                                 DType dtype) {
  const std::vector<float> values = floats_of(DType::f32, parameters);
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(dtype_bytes(dtype)));
  encode(dtype, values.data(), values.size(), bytes.data());
  // The parameters are decoded again for the comparison: a scale that `dtype` rounds would change
  // the values of its block.
  const std::vector<float> kept = floats_of(dtype, bytes);
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]) || kept[i] != values[i])
      return fail("encode.copied_scale",
                  fmt::format("{} {} of the checkpoint's codes is {}, which {} cannot represent",
                              part == WeightPart::zeros ? "zero" : "scale", i, values[i],
                              dtype_name(dtype)),
                  dtype == DType::f32
                      ? "choose a weight form other than copy"
                      : "pass --dtype f32, or choose a weight form other than copy");
  return bytes;
}

}  // namespace moec
