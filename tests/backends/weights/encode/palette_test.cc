#include "backends/weights/encode/palette.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ir/graph/scalar.h"

namespace moec {
namespace {

std::vector<float> bell(size_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<uint16_t> patterns_of(const std::vector<float>& values, DType dtype) {
  std::vector<uint16_t> patterns;
  for (float value : values)
    patterns.push_back(dtype == DType::f16 ? f16_from_f32(value) : bf16_from_f32(value));
  return patterns;
}

class Palettes : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Each, Palettes, testing::Values(DType::f16, DType::bf16),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

TEST_P(Palettes, UseTheNearestEntry) {
  const auto patterns = patterns_of(bell(5000), GetParam());
  std::vector<uint8_t> codes(patterns.size());
  const auto entries =
      PaletteEncoder(GetParam(), 4).encode(std::as_bytes(std::span(patterns)), codes);
  ASSERT_EQ(entries.size(), 16u);
  EXPECT_TRUE(std::is_sorted(entries.begin(), entries.end()));
  for (size_t i = 0; i < patterns.size(); ++i) {
    const float value =
        GetParam() == DType::f16 ? f32_from_f16(patterns[i]) : f32_from_bf16(patterns[i]);
    for (float entry : entries)
      ASSERT_LE(std::abs(value - entries[codes[i]]), std::abs(value - entry)) << value;
  }
}

TEST_P(Palettes, UseEntriesOfTheElementType) {
  const auto patterns = patterns_of(bell(300), GetParam());
  std::vector<uint8_t> codes(patterns.size());
  const auto entries =
      PaletteEncoder(GetParam(), 3).encode(std::as_bytes(std::span(patterns)), codes);
  for (uint16_t pattern : patterns_of(entries, GetParam()))
    EXPECT_NE(std::find(entries.begin(), entries.end(),
                        GetParam() == DType::f16 ? f32_from_f16(pattern) : f32_from_bf16(pattern)),
              entries.end());
}

TEST(Palette, EncodesGroupsIndependently) {
  PaletteEncoder encoder(DType::f16, 2);
  const auto first = patterns_of({1, 2, 3, 4, 5}, DType::f16);
  const auto second = patterns_of({-7, -7, 0, 8, 9}, DType::f16);
  std::vector<uint8_t> codes(5), alone(5);
  encoder.encode(std::as_bytes(std::span(first)), codes);
  const auto entries = encoder.encode(std::as_bytes(std::span(second)), codes);
  EXPECT_EQ(entries, PaletteEncoder(DType::f16, 2).encode(std::as_bytes(std::span(second)), alone));
  EXPECT_EQ(codes, alone);
  EXPECT_EQ(entries, (std::vector<float>{-7, 0, 8, 9}));
}

TEST(Palette, TreatsBothZerosAsOneValue) {
  const auto patterns = patterns_of({-0.0f, 0.0f, 1.0f}, DType::f16);
  std::vector<uint8_t> codes(3);
  const auto entries =
      PaletteEncoder(DType::f16, 1).encode(std::as_bytes(std::span(patterns)), codes);
  EXPECT_EQ(entries, (std::vector<float>{0, 1}));
  EXPECT_EQ(codes, (std::vector<uint8_t>{0, 0, 1}));
}

TEST(Palette, MergesF32ValuesOnlyForSearch) {
  // The first two values agree in 16 bits, but each is assigned by its exact value.
  const std::vector<float> values{1.0f, 1.001f, 2.0f, 3.0f};
  std::vector<uint8_t> codes(values.size());
  const auto entries =
      PaletteEncoder(DType::f32, 2).encode(std::as_bytes(std::span(values)), codes);
  EXPECT_NEAR(entries[0], 1.0005f, 1e-6f);
  EXPECT_EQ(codes, (std::vector<uint8_t>{0, 0, 1, 2}));
}

TEST(Palette, BreaksTiesTowardLowerEntries) {
  const std::vector<float> entries{-1, 1, 3, 3};
  EXPECT_EQ(nearest_entry(0, entries), 0);
  EXPECT_EQ(nearest_entry(-5, entries), 0);
  EXPECT_EQ(nearest_entry(2, entries), 1);
  EXPECT_EQ(nearest_entry(3, entries), 2);
  EXPECT_EQ(nearest_entry(9, entries), 2);
}

}  // namespace
}  // namespace moec
