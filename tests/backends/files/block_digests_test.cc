#include "backends/files/block_digests.h"

#include <gtest/gtest.h>

namespace moec {
namespace {

std::vector<std::byte> counting(int64_t bytes) {
  std::vector<std::byte> data;
  for (int64_t i = 0; i < bytes; ++i) data.push_back(static_cast<std::byte>(i % 251 + 1));
  return data;
}

std::string digest_of(std::span<const std::byte> bytes) {
  Digest digest;
  digest.update(bytes);
  return digest.hex();
}

// Gathers the bytes of one block, element by element.
std::vector<std::byte> block_bytes(std::span<const std::byte> data, const Type& type, size_t axis,
                                   int64_t count, int64_t block) {
  int64_t inner = dtype_bytes(type.dtype);
  for (size_t i = axis + 1; i < type.dims.size(); ++i) inner *= type.dims[i];
  const int64_t size = type.dims[axis] / count;
  std::vector<std::byte> bytes;
  for (int64_t i = 0; i < type.bytes(); ++i)
    if (i / inner % type.dims[axis] / size == block) bytes.push_back(data[static_cast<size_t>(i)]);
  return bytes;
}

TEST(BlockDigests, AreIndependentOfPieceSizes) {
  const Type type{DType::f16, {4, 6, 3}};
  const std::vector<std::byte> data = counting(type.bytes());
  for (size_t axis : {0u, 1u, 2u})
    for (int64_t count : {1, 2, 3})
      for (size_t step : {1u, 7u, 64u, 1000u}) {
        if (type.dims[axis] % count != 0) continue;
        BlockDigests digests(type, axis, count);
        for (size_t at = 0; at < data.size(); at += step)
          digests.update(std::span(data).subspan(at, std::min(step, data.size() - at)));
        ASSERT_EQ(digests.count(), static_cast<size_t>(count));
        for (int64_t block = 0; block < count; ++block)
          EXPECT_EQ(digests.hex(static_cast<size_t>(block)),
                    digest_of(block_bytes(data, type, axis, count, block)));
      }
}

TEST(BlockDigests, CountTrailingZerosPerBlock) {
  const Type type{DType::u8, {2, 4}};
  const std::vector<std::byte> data = {std::byte{1}, std::byte{0}, std::byte{2}, std::byte{0},
                                       std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}};
  for (size_t step : {1u, 3u, 8u}) {
    BlockDigests rows(type, 0, 2), columns(type, 1, 2);
    for (size_t at = 0; at < data.size(); at += step) {
      const auto tile = std::span(data).subspan(at, std::min(step, data.size() - at));
      rows.update(tile);
      columns.update(tile);
    }
    EXPECT_EQ(rows.zero_tail(0), 1u);
    EXPECT_EQ(rows.zero_tail(1), 4u);
    EXPECT_EQ(columns.zero_tail(0), 3u);
    EXPECT_EQ(columns.zero_tail(1), 3u);
  }
}

TEST(BlockDigests, TreatAScalarAsOneBlock) {
  BlockDigests digests({DType::f32, {}}, 0, 1);
  const std::vector<std::byte> data = counting(4);
  digests.update(data);
  EXPECT_EQ(digests.hex(0), digest_of(data));
}

}  // namespace
}  // namespace moec
