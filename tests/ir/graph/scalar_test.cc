#include "ir/graph/scalar.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace moec {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(F16, RoundTripsAllValues) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = f32_from_f16(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(f32_from_f16(f16_from_f32(value)))) << bits;
      continue;
    }
    EXPECT_EQ(f16_from_f32(value), bits);
  }
}

// The definition: sign, 5 bits of exponent with bias 15, 10 bits of fraction.
TEST(F16, MatchesTheFormatDefinition) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const int exponent = static_cast<int>(bits >> 10 & 31),
              fraction = static_cast<int>(bits & 1023);
    double expected =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31) expected = fraction ? NAN : INFINITY;
    const float value = f32_from_f16(static_cast<uint16_t>(bits));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      continue;
    }
    EXPECT_EQ(std::fabs(value), expected) << bits;
    EXPECT_EQ(std::signbit(value), bits >= 0x8000) << bits;
  }
}

TEST(F16, RoundsToNearestEven) {
  EXPECT_EQ(round_to(DType::f16, 2048.0f), 2048.0f);
  EXPECT_EQ(round_to(DType::f16, 2049.0f), 2048.0f);  // tie, down to even
  EXPECT_EQ(round_to(DType::f16, 2051.0f), 2052.0f);  // tie, up to even
  EXPECT_EQ(round_to(DType::f16, 2049.001f), 2050.0f);
  EXPECT_EQ(round_to(DType::f16, 65519.996f), 65504.0f);
  EXPECT_EQ(round_to(DType::f16, 65520.0f), kInfinity);
  EXPECT_EQ(round_to(DType::f16, -65520.0f), -kInfinity);
  EXPECT_EQ(round_to(DType::f16, 0x1p-25f), 0.0f);  // tie between 0 and the least subnormal
  EXPECT_EQ(round_to(DType::f16, 0x1.000002p-25f), 0x1p-24f);
  EXPECT_EQ(round_to(DType::f16, 0x1.8p-24f), 0x1p-23f);
  EXPECT_EQ(round_to(DType::f16, 0x1.ff8p-15f), 0x1.ff8p-15f);  // the largest subnormal
  EXPECT_EQ(round_to(DType::f16, 0x1.ffcp-15f), 0x1p-14f);      // tie, up to the least normal
  EXPECT_EQ(round_to(DType::f16, 0x1.fffp-15f), 0x1p-14f);
  EXPECT_TRUE(std::signbit(round_to(DType::f16, -0.0f)));
}

#ifdef __FLT16_MAX__
// Compares with the compiler's conversion: all 2^16 upper halves of an f32, combined with lower
// halves that produce ties and near-ties, and random bits.
TEST(F16, AgreesWithTheCompiler) {
  auto expect_same = [](uint32_t bits) {
    const float value = std::bit_cast<float>(bits);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(f32_from_f16(f16_from_f32(value)))) << bits;
      return;
    }
    ASSERT_EQ(f16_from_f32(value), std::bit_cast<uint16_t>(static_cast<_Float16>(value))) << bits;
  };
  for (uint32_t high = 0; high < 0x10000; ++high)
    for (uint32_t low : {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x2000u, 0x3000u, 0x7fffu,
                         0x8000u, 0x8001u, 0xf000u, 0xffffu})
      expect_same(high << 16 | low);
  std::mt19937 random(7);
  for (int i = 0; i < 1000000; ++i) expect_same(static_cast<uint32_t>(random()));
}
#endif

TEST(Bf16, RoundTripsAllValues) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = f32_from_bf16(static_cast<uint16_t>(bits));
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(f32_from_bf16(bf16_from_f32(value)))) << bits;
    else
      EXPECT_EQ(bf16_from_f32(value), bits);
  }
}

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(round_to(DType::bf16, 256.0f), 256.0f);
  EXPECT_EQ(round_to(DType::bf16, 257.0f), 256.0f);
  EXPECT_EQ(round_to(DType::bf16, 259.0f), 260.0f);
  EXPECT_EQ(round_to(DType::bf16, 257.01f), 258.0f);
  EXPECT_EQ(round_to(DType::bf16, std::numeric_limits<float>::max()), kInfinity);
  EXPECT_EQ(round_to(DType::bf16, -kInfinity), -kInfinity);
  // A NaN whose upper half alone would be read as infinity.
  EXPECT_TRUE(std::isnan(round_to(DType::bf16, std::bit_cast<float>(0x7f800001u))));
}

// Each f32 rounds to the nearer neighbour; ties round to even.
TEST(Bf16, RoundsToTheNearestNeighbour) {
  std::mt19937 random(3);
  for (int i = 0; i < 200000; ++i) {
    const uint32_t bits = static_cast<uint32_t>(random()) & 0x7fffffffu;
    if (bits >= 0x7f000000u) continue;
    const double value = std::bit_cast<float>(bits);
    const auto below = static_cast<uint16_t>(bits >> 16);
    const double down = value - f32_from_bf16(below),
                 up = f32_from_bf16(static_cast<uint16_t>(below + 1)) - value;
    const bool take_up = up < down || (up == down && (below & 1));
    ASSERT_EQ(bf16_from_f32(static_cast<float>(value)), below + (take_up ? 1 : 0)) << bits;
  }
}

// Values from the E4M3 table of the OCP 8-bit floating point specification.
TEST(F8E4M3, DecodesKnownValues) {
  EXPECT_EQ(f32_from_f8_e4m3(0x00), 0.0f);
  EXPECT_EQ(f32_from_f8_e4m3(0x01), 0x1p-9f);
  EXPECT_EQ(f32_from_f8_e4m3(0x07), 0x1.cp-7f);
  EXPECT_EQ(f32_from_f8_e4m3(0x08), 0x1p-6f);
  EXPECT_EQ(f32_from_f8_e4m3(0x38), 1.0f);
  EXPECT_EQ(f32_from_f8_e4m3(0x7e), 448.0f);
  EXPECT_EQ(f32_from_f8_e4m3(0xfe), -448.0f);
  EXPECT_TRUE(std::isnan(f32_from_f8_e4m3(0x7f)));
  EXPECT_TRUE(std::isnan(f32_from_f8_e4m3(0xff)));
  EXPECT_TRUE(std::signbit(f32_from_f8_e4m3(0x80)));
}

// E2M1 and E8M0 values of the OCP Microscaling specification, version 1.0.
TEST(F4E2M1, DecodesAllValues) {
  const float magnitudes[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  for (int bits = 0; bits < 16; ++bits) {
    const float value = f32_from_f4_e2m1(static_cast<uint8_t>(bits));
    EXPECT_EQ(std::fabs(value), magnitudes[bits % 8]) << bits;
    EXPECT_EQ(std::signbit(value), bits >= 8) << bits;
  }
}

TEST(F8E8M0, DecodesPowersOfTwoAndNan) {
  EXPECT_EQ(f32_from_f8_e8m0(0), 0x1p-127f);  // below the normal range of f32
  EXPECT_EQ(f32_from_f8_e8m0(1), 0x1p-126f);
  EXPECT_EQ(f32_from_f8_e8m0(127), 1.0f);
  EXPECT_EQ(f32_from_f8_e8m0(254), 0x1p127f);
  EXPECT_TRUE(std::isnan(f32_from_f8_e8m0(255)));
}

TEST(F8E4M3, FitsF16AndBf16Exactly) {
  for (uint32_t bits = 0; bits < 256; ++bits) {
    const float value = f32_from_f8_e4m3(static_cast<uint8_t>(bits));
    if (std::isnan(value)) continue;
    EXPECT_EQ(round_to(DType::f16, value), value);
    EXPECT_EQ(round_to(DType::bf16, value), value);
  }
}

TEST(RoundTo, KeepsValuesOfOtherTypes) {
  EXPECT_EQ(round_to(DType::f32, 0.1f), 0.1f);
  EXPECT_EQ(round_to(DType::i64, 3.0f), 3.0f);
}

}  // namespace
}  // namespace moec
