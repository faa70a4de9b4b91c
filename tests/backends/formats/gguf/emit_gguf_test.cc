#include "backends/formats/gguf/emit_gguf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "backends/weights/encode/encode_blocks.h"
#include "tests/files.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

class EmitGguf : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  Result<EmitReport> emit(const std::vector<GgufTensorInfo>& infos,
                          const std::vector<GgufPayload>& payloads) {
    part_ = {"m.gguf", *plan_gguf({}, infos)};
    EmitOptions options;
    options.folder = folder_.string();
    options.tile_bytes = 96;  // blocks cross tile boundaries
    options.on_progress = [this](uint64_t bytes) {
      progress_ += bytes;
      return Status();
    };
    return emit_gguf(part_, payloads, reader_, options);
  }
  std::string bytes_of(size_t tensor) const {
    return read_file(folder_ / "m.gguf")
        .substr(part_.layout.offsets[tensor], part_.layout.bytes[tensor]);
  }

  fs::path folder_ = fs::path(testing::TempDir()) / running_test();
  WeightReader reader_ = *WeightReader::open({});
  GgufPart part_;
  uint64_t progress_ = 0;
};

TEST_F(EmitGguf, WritesStoredAndEncodedTensors) {
  const Dims dims = {4, 64};
  const WeightView values = seeded_view(3, {DType::f32, dims});
  const auto emitted = emit({{"a", BlockType::bf16, dims},
                             {"b", BlockType::q8_0, dims},
                             {"c", BlockType::f32, {2}},
                             {"d", BlockType::i8, {0}}},
                            {{GgufCoding::stored, then(values, CastStep{DType::bf16}), {}},
                             {GgufCoding::encoded, values, {}},
                             {GgufCoding::stored, {}, "12345678"},
                             {}});
  ASSERT_TRUE(emitted) << render(emitted.error());
  const std::vector<float> floats = *reader_.read_f32(values, 1 << 20);
  std::vector<std::byte> blocks(8 * 34);
  encode_blocks(BlockType::q8_0, floats.data(), 8, blocks.data());
  EXPECT_EQ(bytes_of(1), std::string(reinterpret_cast<const char*>(blocks.data()), blocks.size()));
  EXPECT_EQ(bytes_of(0).size(), 512u);
  EXPECT_EQ(bytes_of(2), "12345678");
  ASSERT_EQ(emitted->data.size(), 1u);
  EXPECT_EQ(emitted->data[0].path, "m.gguf");
  EXPECT_EQ(emitted->data[0].bytes, part_.layout.file_bytes);
  EXPECT_EQ(emitted->weight_bytes, 512u + 272 + 8);
  EXPECT_EQ(progress_, emitted->weight_bytes);
  EXPECT_EQ(emitted->tensors.size(), 4u);
  EXPECT_EQ(emitted->tensors[1].name, "b");
}

TEST_F(EmitGguf, RejectsNonfiniteValues) {
  const WeightView infinite = splat_view(INFINITY, {DType::f32, {32}});
  expect_error(emit({{"a", BlockType::q4_0, {32}}}, {{GgufCoding::encoded, infinite, {}}}),
               "encode.nonfinite", "infinite");
  EXPECT_FALSE(fs::exists(folder_ / "m.gguf"));
}

TEST_F(EmitGguf, CountsOverflowingValues) {
  const auto overflows = [&](BlockType type, float value) {
    const auto emitted = emit({{"a", type, {32}}},
                              {{GgufCoding::encoded, splat_view(value, {DType::f32, {32}}), {}}});
    EXPECT_TRUE(emitted) << render(emitted.error());
    return emitted ? emitted->tensors[0].overflows : 0;
  };
  EXPECT_EQ(overflows(BlockType::q8_0, 127 * 32768.0F), 0u);
  EXPECT_EQ(overflows(BlockType::q8_0, 128 * 32768.0F), 32u);
  EXPECT_EQ(overflows(BlockType::q4_0, 7 * 32768.0F), 0u);
  EXPECT_EQ(overflows(BlockType::q4_0, -9 * 32768.0F), 32u);
  EXPECT_EQ(overflows(BlockType::mxfp4, 3e38F), 0u);
}

// GGUF readers decode NaN blocks as huge numbers.
TEST(PairedMxfp4, CountsNanBlocks) {
  std::vector<std::byte> blocks(3 * 17);
  blocks[17] = std::byte{255};
  blocks[2 * 17] = std::byte{254};
  blocks[3] = std::byte{255};
  EXPECT_EQ(count_nan_mxfp4(blocks.data(), 3), 32u);
}

}  // namespace
}  // namespace moec
