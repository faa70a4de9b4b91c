// The bulk conversions against the definitions in ir/scalar.h.
#include "backends/weights/convert.h"
#include "tests/backends/weights_testing.h"

namespace moec {
namespace {

template <class T>
std::vector<T> all_values() {
  std::vector<T> values(size_t{1} << (8 * sizeof(T)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(i);
  return values;
}

bool same_float(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

template <class T>
void expect_decodes(DType dtype, float (*definition)(T)) {
  const std::vector<T> values = all_values<T>();
  std::vector<float> found(values.size());
  decode(dtype, bytes_of(values).data(), values.size(), found.data());
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_TRUE(same_float(found[i], definition(values[i]))) << dtype_name(dtype) << " " << i;
}

TEST(WeightsConvert, DecodesEachBitPatternOfTheSmallTypes) {
  expect_decodes<uint16_t>(DType::f16, f32_from_f16);
  expect_decodes<uint16_t>(DType::bf16, f32_from_bf16);
  expect_decodes<uint8_t>(DType::f8_e4m3, f32_from_f8_e4m3);
}

TEST(WeightsConvert, DecodesIntegersAndBools) {
  std::vector<float> found(3);
  decode(DType::i64, bytes_of<int64_t>({-1, 0, 16777216}).data(), 3, found.data());
  EXPECT_EQ(found, (std::vector<float>{-1, 0, 16777216}));
  decode(DType::i32, bytes_of<int32_t>({-7, 8, 9}).data(), 3, found.data());
  EXPECT_EQ(found, (std::vector<float>{-7, 8, 9}));
  decode(DType::u8, bytes_of<uint8_t>({0, 128, 255}).data(), 3, found.data());
  EXPECT_EQ(found, (std::vector<float>{0, 128, 255}));
  decode(DType::boolean, bytes_of<uint8_t>({0, 1, 2}).data(), 3, found.data());
  EXPECT_EQ(found, (std::vector<float>{0, 1, 1}));
}

// Each f16 value, the points halfway between neighbours and what lies next to those, and a spread
// over all of f32.
std::vector<float> hard_to_round() {
  std::vector<float> values;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto at = std::bit_cast<uint32_t>(f32_from_f16(static_cast<uint16_t>(bits)));
    for (uint32_t near : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u})
      values.push_back(std::bit_cast<float>(at + near));
  }
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 4093)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (int exponent = -26; exponent < -13; ++exponent)  // the subnormals of f16, and halves of them
    for (uint32_t near : {0u, 1u, 0x3fffffu, 0x400000u, 0x400001u})
      values.push_back(
          std::bit_cast<float>(std::bit_cast<uint32_t>(std::ldexp(1.0f, exponent)) + near));
  return values;
}

void expect_encodes(DType dtype, uint16_t (*definition)(float), uint16_t infinity) {
  const std::vector<float> values = hard_to_round();
  Bytes found(values.size() * 2);
  const uint64_t overflows = encode(dtype, values.data(), values.size(), found.data());
  uint64_t expected_overflows = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, found.data() + 2 * i, 2);
    ASSERT_EQ(bits, definition(values[i])) << dtype_name(dtype) << " of " << values[i];
    if (std::isfinite(values[i]) && (bits & 0x7fff) == infinity) ++expected_overflows;
  }
  EXPECT_EQ(overflows, expected_overflows);
  EXPECT_GT(overflows, 0u);
}

TEST(WeightsConvert, EncodesAsTheDefinitions) {
  expect_encodes(DType::f16, f16_from_f32, 0x7c00);
  expect_encodes(DType::bf16, bf16_from_f32, 0x7f80);
}

TEST(WeightsConvert, ScaleCountsWhatBecomesInfinite) {
  std::vector<float> values = {1e30f, -1e30f, 1.0f, INFINITY, NAN};
  EXPECT_EQ(scale(1e20f, values.data(), values.size()), 2u);
  EXPECT_EQ(values[0], INFINITY);
  EXPECT_EQ(values[1], -INFINITY);
  EXPECT_EQ(values[2], 1e20f);
}

template <class T>
void expect_counts(DType dtype, float (*definition)(T)) {
  const std::vector<T> values = all_values<T>();
  uint64_t nans = 0, nonfinite = 0;
  for (T value : values) {
    nans += std::isnan(definition(value)) ? 1 : 0;
    nonfinite += std::isfinite(definition(value)) ? 0 : 1;
  }
  EXPECT_EQ(count_nans(dtype, bytes_of(values).data(), values.size()), nans);
  EXPECT_EQ(count_nonfinite(dtype, bytes_of(values).data(), values.size()), nonfinite);
}

TEST(WeightsConvert, CountsNansAndInfinities) {
  expect_counts<uint16_t>(DType::f16, f32_from_f16);
  expect_counts<uint16_t>(DType::bf16, f32_from_bf16);
  expect_counts<uint8_t>(DType::f8_e4m3, f32_from_f8_e4m3);
  const std::vector<float> values = {0, -0.0f, 3e38f, INFINITY, -INFINITY, NAN, -NAN};
  EXPECT_EQ(count_nans(DType::f32, bytes_of(values).data(), values.size()), 2u);
  EXPECT_EQ(count_nonfinite(DType::f32, bytes_of(values).data(), values.size()), 4u);
  EXPECT_EQ(count_nonfinite(DType::i64, bytes_of<int64_t>({-1}).data(), 1), 0u);
}

}  // namespace
}  // namespace moec
