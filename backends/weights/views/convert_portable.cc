// Scalar kernels, written so that compilers vectorise them.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "backends/weights/views/convert_kernels.h"
#include "backends/weights/views/pack_bits.h"
#include "ir/base/invariant.h"
#include "ir/graph/scalar.h"

namespace moec {
namespace {

// The three functions below use int32_t because the oldest vector units have only signed
// comparisons. Magnitudes, without the sign bit, are never negative.
int32_t magnitude_of(float value) {
  return static_cast<int32_t>(std::bit_cast<uint32_t>(value) & 0x7fffffffu);
}

// The shifted bits of an f16 form an f32 that is too small by 2^112, the difference of the exponent
// biases. A multiplication corrects this and normalises subnormals. Infinities and NaNs need an
// exponent of all ones, which an OR sets.
float wide_from_f16(uint16_t bits) {
  const int32_t magnitude = (bits & 0x7fff) << 13;
  const auto scaled = std::bit_cast<int32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const int32_t wide = magnitude >= 0x0f800000 ? magnitude | 0x7f800000 : scaled;
  return std::bit_cast<float>(static_cast<uint32_t>(wide) |
                              (static_cast<uint32_t>(bits & 0x8000) << 16));
}

// Computes all three cases and selects one without a branch. For results below the normal range,
// adding 0.5 lets the float unit round: one unit in the last place of [0.5, 1) is 2^-24, the
// smallest f16.
int32_t narrow_to_f16(float value) {
  const int32_t magnitude = magnitude_of(value);
  const int32_t normal = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  const int32_t tiny = std::bit_cast<int32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
  const int32_t finite = magnitude < 0x38800000 ? tiny : normal;
  const int32_t special = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00;
  return magnitude < 0x477ff000 ? finite : special;
}

int32_t narrow_to_bf16(float value) {
  const int32_t magnitude = magnitude_of(value);
  const int32_t nan = (magnitude >> 16) | 0x40;
  // Unsigned arithmetic: the sum would overflow int32_t for the largest NaNs.
  const auto rounded = static_cast<int32_t>((static_cast<uint32_t>(magnitude) + 0x7fffu +
                                             ((static_cast<uint32_t>(magnitude) >> 16) & 1u)) >>
                                            16);
  return magnitude > 0x7f800000 ? nan : rounded;
}

// `convert` returns the 16 bits without the sign; `infinity` is the pattern of infinity. Overflows
// are counted in 32 bits per piece, so that all lanes of the loop have the same width.
template <class Convert>
uint64_t encode_each(const float* from, size_t count, std::byte* to, int32_t infinity,
                     Convert convert) {
  constexpr size_t kChunk = size_t{1} << 20;
  uint64_t overflows = 0;
  for (size_t begin = 0; begin < count; begin += kChunk) {
    int32_t found = 0;
    for (size_t i = begin; i < std::min(count, begin + kChunk); ++i) {
      const int32_t bits = convert(from[i]);
      const int32_t sign = static_cast<int32_t>(std::bit_cast<uint32_t>(from[i]) >> 16) & 0x8000;
      store(to, i, static_cast<uint16_t>(bits | sign));
      found += (bits == infinity ? 1 : 0) & (magnitude_of(from[i]) < 0x7f800000 ? 1 : 0);
    }
    overflows += static_cast<uint64_t>(found);
  }
  return overflows;
}

void decode_f16(const std::byte* from, size_t count, float* to) {
  decode_each<uint16_t>(from, count, to, [](uint16_t bits) { return wide_from_f16(bits); });
}

void decode_bf16(const std::byte* from, size_t count, float* to) {
  decode_each<uint16_t>(from, count, to, [](uint16_t bits) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  });
}

void decode_f8_e4m3(const std::byte* from, size_t count, float* to) {
  const std::array<float, 256>& table = f8_e4m3_table();
  decode_each<uint8_t>(from, count, to, [&table](uint8_t bits) { return table[bits]; });
}

uint64_t encode_f16(const float* from, size_t count, std::byte* to) {
  return encode_each(from, count, to, 0x7c00, [](float v) { return narrow_to_f16(v); });
}

uint64_t encode_bf16(const float* from, size_t count, std::byte* to) {
  return encode_each(from, count, to, 0x7f80, [](float v) { return narrow_to_bf16(v); });
}

template <class Factor>
uint64_t multiply_each(float* values, size_t count, Factor factor_of) {
  uint64_t overflows = 0;
  for (size_t i = 0; i < count; ++i) {
    const int32_t before = magnitude_of(values[i]);
    values[i] *= factor_of(i);
    overflows += static_cast<uint64_t>((before < 0x7f800000 ? 1 : 0) &
                                       (magnitude_of(values[i]) == 0x7f800000 ? 1 : 0));
  }
  return overflows;
}

uint64_t scale(float factor, float* values, size_t count) {
  return multiply_each(values, count, [=](size_t) { return factor; });
}

uint64_t multiply(const float* factors, float* values, size_t count) {
  return multiply_each(values, count, [=](size_t i) { return factors[i]; });
}

}  // namespace

const std::array<float, 256>& f8_e4m3_table() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> values{};
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = f32_from_f8_e4m3(static_cast<uint8_t>(i));
    return values;
  }();
  return table;
}

const ConvertKernels& portable_kernels() {
  static constexpr ConvertKernels kKernels = {
      "portable",  decode_f16, decode_bf16, decode_f8_e4m3,       encode_f16,
      encode_bf16, scale,      multiply,    count_from<uint16_t>, count_from<uint32_t>};
  return kKernels;
}

}  // namespace moec
