#include "backends/weights/views/pack_bits.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace moec {
namespace {

std::vector<int> packed(const std::vector<uint8_t>& codes, int bits) {
  std::vector<std::byte> bytes(packed_bytes(codes.size(), bits));
  pack_bits(codes, bits, bytes.data());
  std::vector<int> numbers;
  for (std::byte byte : bytes) numbers.push_back(std::to_integer<int>(byte));
  return numbers;
}

// coremltools 9 writes the expected bytes for these codes.
TEST(PackBits, PutsTheLowestBitsFirst) {
  EXPECT_EQ(packed({1, 2, 3, 4}, 4), (std::vector<int>{0x21, 0x43}));
  EXPECT_EQ(packed({1, 7, 7, 1, 1, 2, 0, 5}, 3), (std::vector<int>{0xf9, 0x13, 0xa1}));
}

TEST(PackBits, ClearsUnusedBits) {
  EXPECT_EQ(packed({1, 1, 1}, 1), (std::vector<int>{0x07}));
  EXPECT_EQ(packed({15}, 4), (std::vector<int>{0x0f}));
}

TEST(PackBits, IsInvertedByUnpacking) {
  std::mt19937 random(1);
  for (int bits = 1; bits <= 8; ++bits)
    for (size_t count = 1; count <= 33; ++count) {
      std::vector<uint8_t> codes(count), found(count);
      for (uint8_t& code : codes) code = static_cast<uint8_t>(random() % (1u << bits));
      std::vector<std::byte> bytes(packed_bytes(count, bits));
      pack_bits(codes, bits, bytes.data());
      unpack_bits(bytes.data(), bits, found);
      ASSERT_EQ(found, codes) << count << " codes of " << bits << " bits";
    }
}

}  // namespace
}  // namespace moec
