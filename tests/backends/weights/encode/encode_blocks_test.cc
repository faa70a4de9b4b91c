#include "backends/weights/encode/encode_blocks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "backends/weights/encode/affine.h"
#include "backends/weights/views/unblock.h"
#include "ir/graph/scalar.h"

namespace moec {
namespace {

constexpr size_t kBlocks = 64;
constexpr size_t kEncodedBlock = 32;

std::vector<float> bell_of_blocks(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.02F);
  std::vector<float> values(kBlocks * kEncodedBlock);
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<std::byte> encoded(BlockType type, const std::vector<float>& values) {
  const size_t blocks = values.size() / static_cast<size_t>(block_format(type).elements);
  std::vector<std::byte> bytes(blocks * static_cast<size_t>(block_format(type).bytes));
  encode_blocks(type, values.data(), blocks, bytes.data());
  return bytes;
}

std::vector<float> through(BlockType type, const std::vector<float>& values) {
  const std::vector<std::byte> bytes = encoded(type, values);
  std::vector<float> decoded(values.size());
  unblock({type}, bytes.data(), values.size() / static_cast<size_t>(block_format(type).elements),
          decoded.data());
  return decoded;
}

double decibels(const std::vector<float>& values, const std::vector<float>& found) {
  double noise = 0, signal = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    noise += std::pow(double{values[i]} - double{found[i]}, 2);
    signal += std::pow(double{values[i]}, 2);
  }
  return 10 * std::log10(signal / noise);
}

TEST(EncodeBlocks, RoundTripsWithLittleNoise) {
  const std::vector<float> values = bell_of_blocks(3);
  EXPECT_GT(decibels(values, through(BlockType::q8_0, values)), 44);
  EXPECT_GT(decibels(values, through(BlockType::q4_0, values)), 20);
  EXPECT_GT(decibels(values, through(BlockType::mxfp4, values)), 17.5);
}

TEST(EncodeBlocks, DecodesQ4LikeInt4) {
  const std::vector<float> values = bell_of_blocks(4);
  const std::vector<float> found = through(BlockType::q4_0, values);
  for (size_t at = 0; at < values.size(); at += kEncodedBlock) {
    const std::span<const float> block = std::span(values).subspan(at, kEncodedBlock);
    const AffineBlock fitted = fit_affine(block, {.bits = 4, .precision = ScalePrecision::bits8});
    std::vector<uint8_t> codes(kEncodedBlock);
    std::vector<float> decoded(kEncodedBlock);
    encode_affine(block, fitted, 4, CodeForm::signed_codes, codes);
    decode_affine(codes, fitted, 4, CodeForm::signed_codes, decoded);
    EXPECT_EQ(std::vector(found.begin() + at, found.begin() + at + kEncodedBlock), decoded);
  }
}

TEST(EncodeBlocks, RoundTripsZerosExactly) {
  const std::vector<float> zeros(kEncodedBlock);
  for (const BlockType type : {BlockType::q8_0, BlockType::q4_0, BlockType::mxfp4})
    EXPECT_EQ(through(type, zeros), zeros) << enum_name(type);
}

TEST(EncodeBlocks, RoundTripsMxfp4NumbersExactly) {
  const float numbers[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  std::mt19937 random(5);
  std::vector<float> values;
  for (size_t i = 0; i < kBlocks; ++i) {
    const int scale = static_cast<int>(random() % 40) - 30;
    for (size_t j = 0; j < kEncodedBlock; ++j) {
      const float number = numbers[random() % 8];
      values.push_back(std::ldexp(random() % 2 == 0 ? number : -number, scale));
    }
  }
  EXPECT_EQ(through(BlockType::mxfp4, values), values);
}

TEST(EncodeBlocks, RoundTripsTernaryWeightsExactly) {
  std::mt19937 random(3);
  std::vector<float> values(8 * 256);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = (static_cast<float>(random() % 3) - 1) *
                f32_from_f16(static_cast<uint16_t>(0x2000 + 77 * (i / 256)));
  for (const BlockType type : {BlockType::tq1_0, BlockType::tq2_0})
    EXPECT_EQ(through(type, values), values) << enum_name(type);
}

// Bytes that ggml writes for one block of these weights.
TEST(EncodeBlocks, WritesTernaryBlocksLikeGgml) {
  std::vector<float> values(256);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * i % 3) - 1;
  const auto found = [&](BlockType type) {
    std::string text;
    for (const std::byte byte : encoded(type, values))
      text += fmt::format("{:02x}", static_cast<int>(byte));
    return text;
  };
  EXPECT_EQ(found(BlockType::tq2_0),
            "14514514514514514514514514514514514514514514514514514514514514514514514514514514"
            "514514514514514514514514514514514514514514514514003c");
  EXPECT_EQ(found(BlockType::tq1_0),
            "27627627627627627627627627627627627627627627627627627627627627627662277662277662"
            "277662277662277626756226003c");
}

TEST(EncodeBlocks, RoundsMxfp4TiesToEven) {
  std::vector<float> values(kEncodedBlock);
  const float ties[] = {6, 0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5, -0.25F, -5};
  std::copy(std::begin(ties), std::end(ties), values.begin());
  const std::vector<float> found = through(BlockType::mxfp4, values);
  EXPECT_EQ(std::vector(found.begin(), found.begin() + 10),
            (std::vector<float>{6, 0, 1, 1, 2, 2, 4, 4, 0, -4}));
}

TEST(EncodeBlocks, ReordersCheckpointPairsForFiles) {
  std::vector<std::byte> from(17), to(17);
  from[0] = std::byte{120};
  for (size_t j = 0; j < 16; ++j)
    from[1 + j] = static_cast<std::byte>(2 * j % 16 | (2 * j + 1) % 16 << 4);
  pair_as_gguf(from.data(), 1, to.data());
  EXPECT_EQ(to[0], std::byte{120});
  for (size_t j = 0; j < 16; ++j)
    EXPECT_EQ(to[1 + j], static_cast<std::byte>(j % 16 | (j + 16) % 16 << 4)) << j;
}

}  // namespace
}  // namespace moec
