#include "backends/weights/encode/affine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "ir/graph/scalar.h"

namespace moec {
namespace {

// Integers that the codes of `values` decode to.
std::vector<int> numbers_of(const std::vector<float>& values, const AffineBlock& block, int bits) {
  std::vector<uint8_t> codes(values.size());
  encode_affine(values, block, bits, CodeForm::signed_codes, codes);
  const int half = 1 << (bits - 1);
  std::vector<int> numbers;
  for (uint8_t code : codes) numbers.push_back(code < half ? code : code - 2 * half);
  return numbers;
}

double error_of(const std::vector<float>& values, const AffineBlock& block, int bits) {
  const std::vector<int> codes = numbers_of(values, block, bits);
  double error = 0;
  for (size_t i = 0; i < values.size(); ++i)
    error += std::pow(double(values[i]) - double(block.scale) * (codes[i] - block.zero), 2);
  return error;
}

std::vector<float> bell(std::mt19937& random, size_t count, float mean = 0) {
  std::normal_distribution<float> normal(mean, 0.02f);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

TEST(Affine, SpansTheLargestValueInInt8) {
  const std::vector<float> values{0.5f, -1.27f, 0.01f, 1.0f};
  const AffineBlock block = fit_affine(values, {});
  EXPECT_EQ(numbers_of(values, block, 8), (std::vector<int>{50, -127, 1, 100}));
  EXPECT_NEAR(block.scale, 0.01f, 1e-6f);
}

TEST(Affine, ReducesTheErrorOfInt4) {
  std::mt19937 random(1);
  double fitted = 0, spanning = 0;
  for (int round = 0; round < 200; ++round) {
    const std::vector<float> values = bell(random, 32);
    float largest = 0;
    for (float value : values) largest = std::max(largest, std::abs(value));
    const double least = error_of(values, fit_affine(values, {.bits = 4}), 4);
    const double plain = error_of(values, {largest / 7, 0}, 4);
    EXPECT_LE(least, plain * 1.0000001);
    fitted += least;
    spanning += plain;
  }
  // Absmax scaling has about 1 dB less SQNR on a normal distribution.
  EXPECT_LT(fitted, 0.85 * spanning);
}

TEST(Affine, ReducesErrorsWithAZeroPoint) {
  std::mt19937 random(2);
  const std::vector<float> values = bell(random, 64, 0.1f);
  const AffineBlock with = fit_affine(values, {.bits = 4, .zero_point = true});
  EXPECT_LT(with.zero, 0);
  EXPECT_LT(error_of(values, with, 4), 0.7 * error_of(values, fit_affine(values, {.bits = 4}), 4));
}

TEST(Affine, KeepsScaledCodesExactInF16) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    const AffineBlock block =
        fit_affine(bell(random, 32), {.bits = 4, .precision = ScalePrecision::bits8});
    EXPECT_EQ(block.scale, f32_from_f16(f16_from_f32(block.scale)));
    EXPECT_EQ(block.scale, f32_from_bf16(bf16_from_f32(block.scale)));
    for (int code = -8; code < 8; ++code) {
      const float value = block.scale * static_cast<float>(code);
      EXPECT_EQ(value, f32_from_f16(f16_from_f32(value)));
    }
  }
}

TEST(Affine, UsesPositiveScalesForTinyValues) {
  EXPECT_EQ(fit_affine(std::vector<float>(32, 0.0f), {.bits = 4}), AffineBlock{});
  const std::vector<float> tiny(32, 1e-30f);
  for (auto precision : {ScalePrecision::bits8, ScalePrecision::f16, ScalePrecision::f32}) {
    const AffineBlock block = fit_affine(tiny, {.bits = 4, .precision = precision});
    EXPECT_GT(block.scale, 0);
    EXPECT_TRUE(std::isfinite(1 / block.scale));
  }
}

TEST(Affine, KeepsCodesInRange) {
  EXPECT_EQ(numbers_of({-1e30f, 1e30f, -1.0f, 1.0f}, {1e-3f, 0}, 4),
            (std::vector<int>{-8, 7, -8, 7}));
  EXPECT_EQ(numbers_of({-1e30f, 1e30f, 0, 0.001f}, {1e-3f, 0}, 8),
            (std::vector<int>{-127, 127, 0, 1}));
}

TEST(Affine, DecodesBothCodeFormsEqually) {
  const std::vector<float> values{-2.0f, -0.9f, 0, 0.3f, 0.6f};
  const AffineBlock block{0.25f, -3};
  std::vector<uint8_t> codes(values.size()), excess(values.size());
  std::vector<float> found(values.size()), of_excess(values.size());
  encode_affine(values, block, 4, CodeForm::signed_codes, codes);
  encode_affine(values, block, 4, CodeForm::excess, excess);
  EXPECT_EQ(codes, (std::vector<uint8_t>{0x8, 0x9, 0xd, 0xe, 0xf}));
  EXPECT_EQ(excess, (std::vector<uint8_t>{0x0, 0x1, 0x5, 0x6, 0x7}));
  decode_affine(codes, block, 4, CodeForm::signed_codes, found);
  decode_affine(excess, block, 4, CodeForm::excess, of_excess);
  EXPECT_EQ(found, (std::vector<float>{-1.25f, -1.0f, 0, 0.25f, 0.5f}));
  EXPECT_EQ(of_excess, found);
}

TEST(Affine, RoundsSignificandsToNearestEven) {
  EXPECT_EQ(round_significand(257.0f, 8), 256.0f);
  EXPECT_EQ(round_significand(259.0f, 8), 260.0f);
  EXPECT_EQ(round_significand(1.5f, 8), 1.5f);
  EXPECT_EQ(round_significand(0.1f, 24), 0.1f);
}

}  // namespace
}  // namespace moec
