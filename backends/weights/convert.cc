#include "backends/weights/convert.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "ir/invariant.h"
#include "ir/scalar.h"

namespace moec {
namespace {

static_assert(std::endian::native == std::endian::little, "payload is used as it lies in files");

constexpr uint32_t kMagnitude = 0x7fffffffu, kInfinity = 0x7f800000u;

template <class T>
T load(const std::byte* from, size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(std::byte* to, size_t index, T value) {
  std::memcpy(to + index * sizeof(T), &value, sizeof(T));
}

// The three functions below work on int32_t: signed comparisons are what the oldest vector units
// have. Magnitudes, without the sign bit, are never negative.
int32_t magnitude_of(float value) {
  return static_cast<int32_t>(std::bit_cast<uint32_t>(value) & kMagnitude);
}

// The exponent field moves up by 112 through a multiplication, which also makes subnormals normal;
// infinities and NaNs, whose exponent must become all ones, get it by an OR.
float wide_from_f16(uint16_t bits) {
  const int32_t magnitude = (bits & 0x7fff) << 13;
  const auto scaled = std::bit_cast<int32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const int32_t wide = magnitude >= 0x0f800000 ? magnitude | 0x7f800000 : scaled;
  return std::bit_cast<float>(static_cast<uint32_t>(wide) |
                              (static_cast<uint32_t>(bits & 0x8000) << 16));
}

// All three cases are computed and one is chosen, without a branch. For results below the normal
// range, adding 0.5 lets the float unit do the rounding: one unit in the last place of [0.5, 1) is
// 2^-24, the smallest f16.
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
  // Unsigned: the largest NaNs would pass the range of int32_t.
  const auto rounded = static_cast<int32_t>((static_cast<uint32_t>(magnitude) + 0x7fffu +
                                             ((static_cast<uint32_t>(magnitude) >> 16) & 1u)) >>
                                            16);
  return magnitude > 0x7f800000 ? nan : rounded;
}

const std::array<float, 256>& f8_table() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> values{};
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = f32_from_f8_e4m3(static_cast<uint8_t>(i));
    return values;
  }();
  return table;
}

template <class T, class Convert>
void decode_each(const std::byte* from, size_t count, float* to, Convert convert) {
  for (size_t i = 0; i < count; ++i) to[i] = convert(load<T>(from, i));
}

// `convert` gives the 16 bits without the sign, `infinity` those of the infinite. The overflows of
// a stretch are counted in 32 bits, which keeps the loop in one width.
template <class Convert>
uint64_t encode_each(const float* from, size_t count, std::byte* to, int32_t infinity,
                     Convert convert) {
  constexpr size_t kStretch = size_t{1} << 20;
  uint64_t overflows = 0;
  for (size_t begin = 0; begin < count; begin += kStretch) {
    int32_t found = 0;
    for (size_t i = begin; i < std::min(count, begin + kStretch); ++i) {
      const int32_t bits = convert(from[i]);
      const int32_t sign = static_cast<int32_t>(std::bit_cast<uint32_t>(from[i]) >> 16) & 0x8000;
      store(to, i, static_cast<uint16_t>(bits | sign));
      found += (bits == infinity ? 1 : 0) & (magnitude_of(from[i]) < 0x7f800000 ? 1 : 0);
    }
    overflows += static_cast<uint64_t>(found);
  }
  return overflows;
}

// Counts the elements whose bits without the sign are at least `least`.
template <class T>
uint64_t count_from(const std::byte* values, size_t count, T least) {
  constexpr T magnitude = static_cast<T>(static_cast<T>(~T{0}) >> 1);
  uint64_t found = 0;
  for (size_t i = 0; i < count; ++i)
    found += static_cast<T>(load<T>(values, i) & magnitude) >= least ? 1 : 0;
  return found;
}

}  // namespace

void decode(DType dtype, const std::byte* from, size_t count, float* to) {
  switch (dtype) {
    case DType::f32:
      std::memcpy(to, from, count * sizeof(float));
      return;
    case DType::f16:
      return decode_each<uint16_t>(from, count, to, [](uint16_t v) { return wide_from_f16(v); });
    case DType::bf16:
      return decode_each<uint16_t>(from, count, to, [](uint16_t bits) {
        return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
      });
    case DType::f8_e4m3:
      return decode_each<uint8_t>(from, count, to,
                                  [&table = f8_table()](uint8_t bits) { return table[bits]; });
    case DType::i64:
      return decode_each<int64_t>(from, count, to, [](int64_t v) { return static_cast<float>(v); });
    case DType::i32:
      return decode_each<int32_t>(from, count, to, [](int32_t v) { return static_cast<float>(v); });
    case DType::u8:
      return decode_each<uint8_t>(from, count, to, [](uint8_t v) { return static_cast<float>(v); });
    case DType::boolean:
      return decode_each<uint8_t>(from, count, to, [](uint8_t v) { return v ? 1.0f : 0.0f; });
  }
}

uint64_t encode(DType dtype, const float* from, size_t count, std::byte* to) {
  if (dtype == DType::f16)
    return encode_each(from, count, to, 0x7c00, [](float v) { return narrow_to_f16(v); });
  if (dtype == DType::bf16)
    return encode_each(from, count, to, 0x7f80, [](float v) { return narrow_to_bf16(v); });
  MOEC_CHECK(dtype == DType::f32, "no conversion from f32 to {}", dtype_name(dtype));
  std::memcpy(to, from, count * sizeof(float));
  return 0;
}

uint64_t scale(float factor, float* values, size_t count) {
  uint64_t overflows = 0;
  for (size_t i = 0; i < count; ++i) {
    const int32_t before = magnitude_of(values[i]);
    values[i] *= factor;
    overflows += static_cast<uint64_t>((before < 0x7f800000 ? 1 : 0) &
                                       (magnitude_of(values[i]) == 0x7f800000 ? 1 : 0));
  }
  return overflows;
}

uint64_t count_nans(DType dtype, const std::byte* values, size_t count) {
  if (dtype == DType::f32) return count_from<uint32_t>(values, count, kInfinity + 1);
  if (dtype == DType::f16) return count_from<uint16_t>(values, count, 0x7c01u);
  if (dtype == DType::bf16) return count_from<uint16_t>(values, count, 0x7f81u);
  if (dtype == DType::f8_e4m3) return count_from<uint8_t>(values, count, 0x7fu);
  return 0;
}

uint64_t count_nonfinite(DType dtype, const std::byte* values, size_t count) {
  if (dtype == DType::f32) return count_from<uint32_t>(values, count, kInfinity);
  if (dtype == DType::f16) return count_from<uint16_t>(values, count, 0x7c00u);
  if (dtype == DType::bf16) return count_from<uint16_t>(values, count, 0x7f80u);
  return count_nans(dtype, values, count);
}

}  // namespace moec
