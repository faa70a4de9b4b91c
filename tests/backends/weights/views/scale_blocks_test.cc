#include "backends/weights/views/scale_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "backends/weights/views/convert.h"
#include "backends/weights/views/unblock.h"
#include "ir/graph/scalar.h"

namespace moec {
namespace {

constexpr size_t kScaledBlocks = 40;

std::vector<float> values_of(BlockType type, const std::vector<std::byte>& bytes) {
  const BlockFormat& format = block_format(type);
  std::vector<float> values(kScaledBlocks * static_cast<size_t>(format.elements));
  if (const auto plain = plain_dtype(type))
    decode(*plain, bytes.data(), values.size(), values.data());
  else
    unblock({type}, bytes.data(), kScaledBlocks, values.data());
  return values;
}

// Random blocks in which every two bytes, in any field, are an f16 between 1 and 4.
std::vector<std::byte> some_blocks(BlockType type) {
  std::mt19937 random(7);
  std::vector<std::byte> bytes(kScaledBlocks * static_cast<size_t>(block_format(type).bytes));
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i % 2 == 0 ? random() & 0xff : 0x3c + (random() & 7));
  return bytes;
}

TEST(ScaleBlocks, MultipliesEveryValue) {
  int scaled = 0;
  for (size_t i = 0; i < enum_count<BlockType>; ++i) {
    const auto type = static_cast<BlockType>(i);
    if (!can_scale(type)) continue;
    ++scaled;
    std::vector<std::byte> bytes = some_blocks(type);
    const std::vector<float> before = values_of(type, bytes);
    scale_blocks(type, bytes, 0.75f);
    const std::vector<float> after = values_of(type, bytes);
    float largest = 0;
    for (const float value : before) largest = std::max(largest, std::abs(value));
    for (size_t e = 0; e < before.size(); ++e)
      ASSERT_NEAR(after[e], before[e] * 0.75f, largest * 0x1p-7f) << enum_name(type) << " " << e;
  }
  EXPECT_EQ(scaled, 23);
}

TEST(ScaleBlocks, ScalesExactlyByPowersOfTwo) {
  for (const BlockType type :
       {BlockType::q8_0, BlockType::q4_k, BlockType::q6_k, BlockType::q5_1}) {
    std::vector<std::byte> bytes = some_blocks(type);
    const std::vector<std::byte> stored = bytes;
    const std::vector<float> before = values_of(type, bytes);
    scale_blocks(type, bytes, 1);
    EXPECT_EQ(bytes, stored);
    scale_blocks(type, bytes, 0.5f);
    const std::vector<float> after = values_of(type, bytes);
    for (size_t e = 0; e < before.size(); ++e) ASSERT_EQ(after[e], before[e] / 2);
  }
}

TEST(ScaleBlocks, RejectsTypesWithoutF16Scales) {
  for (const BlockType type :
       {BlockType::mxfp4, BlockType::nvfp4, BlockType::iq1_m, BlockType::i32})
    EXPECT_FALSE(can_scale(type)) << enum_name(type);
}

}  // namespace
}  // namespace moec
