#include "ir/graph/block_type.h"

#include <gtest/gtest.h>

#include <set>

namespace moec {
namespace {

TEST(BlockType, FindsEachNumberOnce) {
  std::set<uint32_t> ids;
  for (size_t i = 0; i < kBlockFormats.size(); ++i) {
    const BlockFormat& format = kBlockFormats[i];
    EXPECT_TRUE(ids.insert(format.gguf_id).second) << format.name;
    EXPECT_EQ(find_block_type(format.gguf_id), static_cast<BlockType>(i)) << format.name;
    EXPECT_EQ(parse_enum<BlockType>(format.name), static_cast<BlockType>(i));
    EXPECT_FALSE(removed_block_type(format.gguf_id)) << format.name;
  }
  EXPECT_EQ(find_block_type(43), std::nullopt);
}

TEST(BlockType, NamesRemovedNumbers) {
  EXPECT_EQ(removed_block_type(4), "q4_2");
  EXPECT_EQ(removed_block_type(38), "iq4_nl_8_8");
  for (uint32_t id : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u})
    EXPECT_TRUE(removed_block_type(id) && !find_block_type(id)) << id;
}

TEST(BlockType, MapsPlainTypesToDtypes) {
  EXPECT_EQ(plain_dtype(BlockType::bf16), DType::bf16);
  EXPECT_EQ(plain_dtype(BlockType::i64), DType::i64);
  EXPECT_EQ(plain_dtype(BlockType::i8), std::nullopt);
  EXPECT_EQ(plain_dtype(BlockType::q8_0), std::nullopt);
  for (size_t i = 0; i < kBlockFormats.size(); ++i) {
    const std::optional<DType> dtype = plain_dtype(static_cast<BlockType>(i));
    EXPECT_EQ(dtype ? dtype_bytes(*dtype) : kBlockFormats[i].bytes, kBlockFormats[i].bytes);
  }
}

TEST(BlockType, CountsBytesOfARow) {
  EXPECT_EQ(block_row_bytes(BlockType::f32, 3), 12);
  EXPECT_EQ(block_row_bytes(BlockType::q4_k, 4096), 16 * 144);
  EXPECT_EQ(block_row_bytes(BlockType::mxfp4, 2880), 90 * 17);
}

}  // namespace
}  // namespace moec
