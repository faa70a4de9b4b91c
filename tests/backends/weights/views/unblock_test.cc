#include "backends/weights/views/unblock.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "ir/graph/scalar.h"

namespace moec {
namespace {

constexpr size_t kBlocks = 50;

// Random blocks with small finite f16 values at every offset where a type may store an f16.
std::vector<std::byte> random_blocks(BlockType type) {
  const auto bytes = static_cast<size_t>(block_format(type).bytes);
  std::mt19937 random(1);
  std::vector<std::byte> blocks(kBlocks * bytes);
  for (std::byte& byte : blocks) byte = static_cast<std::byte>(random());
  const auto put_half = [&](size_t at, float value) {
    const uint16_t half = f16_from_f32(value);
    std::memcpy(blocks.data() + at, &half, sizeof(half));
  };
  for (size_t block = 0; block < kBlocks; ++block)
    for (const size_t at : {size_t{0}, size_t{2}, bytes - 4, bytes - 2}) {
      const float value = static_cast<float>(random() % 1000) / 700 - 0.7f;
      put_half(block * bytes + at, block % 7 == 3 && at == 0 ? 0 : value);
    }
  return blocks;
}

std::vector<float> part_of(BlockType type, UnblockPart part) {
  const UnblockStep step{type, part};
  const std::vector<std::byte> blocks = random_blocks(type);
  std::vector<float> numbers(kBlocks * static_cast<size_t>(unblocked_count(step)));
  unblock(step, blocks.data(), kBlocks, numbers.data());
  return numbers;
}

void expect_parts_give_values(BlockType type, const IntegerCodes& known) {
  const std::vector<float> values = part_of(type, UnblockPart::values),
                           codes = part_of(type, UnblockPart::codes),
                           scales = part_of(type, UnblockPart::scales);
  const std::vector<float> zeros =
      known.zeros ? part_of(type, UnblockPart::zeros) : std::vector<float>(scales.size());
  const float bound = std::ldexp(1.0f, static_cast<int>(known.bits) - 1);
  const float excess = known.zeros ? bound : 0;
  ASSERT_EQ(codes.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t block = i / static_cast<size_t>(known.elements);
    EXPECT_EQ(codes[i], std::trunc(codes[i]));
    EXPECT_TRUE(codes[i] >= -bound && codes[i] < bound) << codes[i];
    const float decoded = (codes[i] + excess - zeros[block]) * scales[block];
    const float most = std::abs(scales[block]) * (2 * bound + std::abs(zeros[block]));
    EXPECT_NEAR(decoded, values[i], known.zeros ? 1e-6f * most : 0) << enum_name(type) << " " << i;
  }
}

TEST(Unblock, ReadsPartsOfBlocks) {
  size_t types = 0;
  for (size_t i = 0; i < kBlockFormats.size(); ++i) {
    const auto type = static_cast<BlockType>(i);
    const auto known = block_format(type).codes;
    if (!known) continue;
    ++types;
    expect_parts_give_values(type, *known);
  }
  EXPECT_EQ(types, 10u);
}

}  // namespace
}  // namespace moec
