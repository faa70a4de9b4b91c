// Compares the kinds of views that the compiler builds with the oracle, and checks their counters.
#include <gmock/gmock.h>

#include <limits>

#include "backends/weights/views/view_node.h"
#include "tests/backends/weights/views/testing.h"

namespace moec {
namespace {

// One file of random bf16 values in [-4, 4), read as tensors of several shapes and types.
class WeightsSteps : public testing::Test {
 protected:
  void SetUp() override {
    std::mt19937 random(7);
    std::vector<uint16_t> values(1 << 15);
    for (uint16_t& value : values)
      value = bf16_from_f32(static_cast<float>(random() % 8000) / 1000.0f - 4);
    file_ = bytes_of(values);
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    table_.files = {{write_file(std::string("steps_") + info->name(), file_), file_.size()}};
  }

  WeightView tensor(const std::string& name, uint64_t offset, Type type) {
    table_.tensors[name] = {0, offset, type};
    return tensor_view(name, std::move(type));
  }

  StreamReport expect_as_oracle(const WeightView& view, ReaderOptions options = {},
                                size_t tile_bytes = 100) {
    auto reader = WeightReader::open(table_, options);
    StreamReport report;
    if (!reader) return ADD_FAILURE() << render(reader.error()), report;
    auto found = stream_all(*reader, view, tile_bytes, report);
    if (!found) return ADD_FAILURE() << render(found.error()), report;
    const Naive expected = Oracle(table_, file_)(view);
    const auto width = static_cast<size_t>(dtype_bytes(expected.type.dtype));
    EXPECT_EQ(found->size(), expected.bits.size() * width);
    for (size_t i = 0; i < expected.bits.size() && !HasFailure(); ++i) {
      uint64_t bits = 0;
      std::memcpy(&bits, found->data() + i * width, width);
      EXPECT_EQ(bits, expected.bits[i]) << "element " << i;
    }
    return report;
  }

  WeightTable table_;
  Bytes file_;
};

TEST_F(WeightsSteps, ReadsConvWeightsFromProjections) {
  expect_as_oracle(then(then(tensor("w", 6, {DType::bf16, {24, 40}}), CastStep{DType::f16}),
                        ReshapeStep{{24, 40, 1, 1}}));
}

TEST_F(WeightsSteps, ReadsTransposedBytesOnce) {
  const auto report =
      expect_as_oracle(then(tensor("w", 3, {DType::bf16, {100, 90}}), PermuteStep{{1, 0}}));
  EXPECT_EQ(report.bytes_read, 100u * 90 * 2);
}

TEST_F(WeightsSteps, TransposesInSmallBlocks) {
  expect_as_oracle(then(tensor("w", 3, {DType::bf16, {100, 90}}), PermuteStep{{1, 0}}),
                   {.gather_bytes = 1500, .band_bytes = 64});
}

TEST_F(WeightsSteps, ReadsAMatmulBankOfExperts) {
  std::vector<WeightView> experts;
  for (int e = 0; e < 5; ++e)
    experts.push_back(then(
        tensor("e" + std::to_string(e), static_cast<uint64_t>(e) * 900, {DType::bf16, {7, 40}}),
        CastStep{DType::f32}));
  expect_as_oracle(then(concat_view(0, experts), PermuteStep{{1, 0}}));
  expect_as_oracle(then(concat_view(1, experts), ReshapeStep{{7, 200, 1, 1}}));
}

TEST_F(WeightsSteps, ReadsOneExpertOfFusedTensors) {
  const WeightView fused = tensor("w", 0, {DType::bf16, {4, 24, 32}});
  const WeightView gate_up = then(then(fused, SliceStep{0, 2, 1}), ReshapeStep{{24, 32}});
  expect_as_oracle(then(gate_up, SliceStep{0, 12, 12}));
  expect_as_oracle(then(then(gate_up, PermuteStep{{1, 0}}), SliceStep{1, 0, 12}));
}

// Rotary embeddings reorder pairs of rows into halves; then the weight is transposed for matmul.
// The reshape joins axes without a common stride.
TEST_F(WeightsSteps, ReshapesAfterPermuting) {
  const WeightView pairs =
      then(tensor("w", 2, {DType::bf16, {32, 24}}), ReshapeStep{{2, 8, 2, 24}});
  const WeightView halves = then(then(pairs, PermuteStep{{0, 2, 1, 3}}), ReshapeStep{{32, 24}});
  expect_as_oracle(halves);
  expect_as_oracle(then(halves, PermuteStep{{1, 0}}));
  expect_as_oracle(then(then(halves, SliceStep{0, 5, 9}), CastStep{DType::f32}));
  expect_as_oracle(then(halves, PermuteStep{{1, 0}}), {.gather_bytes = 300, .band_bytes = 16});
}

WeightView dequantised(WeightView view, Dims block, WeightView scale) {
  return then(std::move(view), DequantStep{std::move(block), {std::move(scale)}});
}

// The last blocks are partial, and the slice begins inside a block.
TEST_F(WeightsSteps, DequantizesBlocksAndSlicesThem) {
  const WeightView view = dequantised(tensor("w", 1, {DType::f8_e4m3, {20, 30}}), {8, 7},
                                      tensor("s", 4000, {DType::bf16, {3, 5}}));
  expect_as_oracle(view);
  const WeightView part = then(then(view, SliceStep{0, 5, 12}), SliceStep{1, 3, 20});
  expect_as_oracle(part);
  expect_as_oracle(then(part, ReshapeStep{{12, 20, 1, 1}}));
  expect_as_oracle(then(then(part, ReshapeStep{{12, 1, 20}}), PermuteStep{{2, 1, 0}}));
  expect_as_oracle(then(then(part, ReshapeStep{{240}}), SliceStep{0, 7, 100}));
}

// One expert of a bank stored in blocks, and row slices that begin and end inside blocks.
TEST_F(WeightsSteps, ReadsBlockedExperts) {
  for (const BlockType type : {BlockType::q4_k, BlockType::q5_0, BlockType::mxfp4}) {
    const int64_t row = 512, bytes = block_row_bytes(type, row);
    const WeightView bank = then(
        tensor(std::string(enum_name(type)), 3, {DType::u8, {3, 6, bytes}}), UnblockStep{type});
    expect_as_oracle(bank);
    const WeightView expert = then(then(bank, SliceStep{0, 1, 1}), ReshapeStep{{6, row}});
    const StreamReport report = expect_as_oracle(expert, {}, 1 << 20);
    EXPECT_EQ(report.bytes_read, static_cast<uint64_t>(6 * bytes)) << enum_name(type);
    const StreamReport rows = expect_as_oracle(then(expert, SliceStep{0, 2, 3}), {}, 1 << 20);
    EXPECT_EQ(rows.bytes_read, static_cast<uint64_t>(3 * bytes)) << enum_name(type);
    expect_as_oracle(then(expert, SliceStep{1, 37, 300}));
    expect_as_oracle(then(then(expert, SliceStep{1, 250, 12}), PermuteStep{{1, 0}}));
    expect_as_oracle(then(then(expert, PermuteStep{{1, 0}}), SliceStep{0, 255, 2}),
                     {.gather_bytes = 300, .band_bytes = 16});
    expect_as_oracle(concat_view(1, {then(expert, SliceStep{1, 500, 12}), expert}));
    expect_as_oracle(then(then(expert, ReshapeStep{{6, row, 1, 1}}), CastStep{DType::f16}));
    expect_as_oracle(then(then(expert, ReshapeStep{{6 * row}}), SliceStep{0, 100, 1000}));
  }
}

// A slice of a row reads only the blocks that it touches.
TEST_F(WeightsSteps, ReadsOnlyTouchedBlocks) {
  const WeightView rows =
      then(tensor("w", 0, {DType::u8, {4, 64 * 144}}), UnblockStep{BlockType::q4_k});
  const auto bytes_read = [&](const WeightView& view) {
    return expect_as_oracle(view, {}, 1 << 20).bytes_read;
  };
  EXPECT_EQ(bytes_read(then(rows, SliceStep{1, 256, 512})), 4u * 2 * 144);
  EXPECT_EQ(bytes_read(then(then(rows, SliceStep{0, 3, 1}), SliceStep{1, 511, 2})), 2u * 144);
}

// Reading a view in order requires scratch memory of at most two f32 blocks.
TEST_F(WeightsSteps, UsesLittleScratchForBlocks) {
  table_.tensors["big"] = {0, 0, {DType::u8, {4096, 16 * 144}}};
  table_.files.front().bytes = uint64_t{4096} * 16 * 144;
  const WeightView rows =
      then(tensor_view("big", {DType::u8, {4096, 16 * 144}}), UnblockStep{BlockType::q4_k});
  for (const WeightView& view : {rows, then(rows, PermuteStep{{1, 0}})}) {
    const NodePtr node = *compile_view(view, table_);
    const uint64_t block = uint64_t{1} << 20;
    EXPECT_LE(node->scratch_bytes(block, {}), 2 * block * sizeof(float));
  }
}

// gpt-oss MXFP4 tensors: gate and up rows alternate in each expert, and each row consists of blocks
// of 32.
TEST_F(WeightsSteps, ReadsOneMicroscaledExpert) {
  const int64_t experts = 3, width = 6, hidden = 96;
  const WeightView codes = then(tensor("b", 1, {DType::u8, {experts, 2 * width, 3, 16}}),
                                ReshapeStep{{experts, 2 * width, hidden / 2}});
  const WeightView powers =
      then(tensor("s", 5000, {DType::u8, {experts, 2 * width, 3}}), UnpackStep{Packing::f8_e8m0});
  const WeightView rows =
      dequantised(then(codes, UnpackStep{Packing::f4_e2m1}), {1, 1, 32}, powers);
  expect_as_oracle(rows);
  const WeightView stored = then(rows, PermuteStep{{0, 2, 1}});  // as in the bf16 files
  const WeightView pairs = then(then(stored, SliceStep{0, 1, 1}), ReshapeStep{{hidden, width, 2}});
  const WeightView up = then(then(pairs, SliceStep{2, 1, 1}), ReshapeStep{{hidden, width}});
  expect_as_oracle(up);
  expect_as_oracle(then(then(up, PermuteStep{{1, 0}}), CastStep{DType::f16}));
  expect_as_oracle(then(then(up, PermuteStep{{1, 0}}), ReshapeStep{{width, hidden, 1, 1}}));
  expect_as_oracle(concat_view(1, {up, up}), {.gather_bytes = 500, .band_bytes = 64});
}

// A tile of an expert bank reads only the blocks and scales of the tile's rows.
TEST_F(WeightsSteps, ReadsMicroscaledBytesOnce) {
  const WeightView rows = dequantised(
      then(tensor("b", 3, {DType::u8, {24, 48}}), UnpackStep{Packing::f4_e2m1}), {1, 32},
      then(tensor("s", 5000, {DType::u8, {24, 3}}), UnpackStep{Packing::f8_e8m0}));
  EXPECT_EQ(expect_as_oracle(then(rows, SliceStep{0, 8, 4}), {}, 4 * 96 * 4).bytes_read,
            4u * (48 + 3));
  EXPECT_EQ(expect_as_oracle(then(rows, PermuteStep{{1, 0}})).bytes_read, 24u * (48 + 3));
}

// Combines each byte with each scale, including values that overflow.
TEST_F(WeightsSteps, DecodesEachMicroscaledValue) {
  file_.clear();
  for (int scale = 0; scale < 256; ++scale)
    for (int pair = 0; pair < 256; ++pair) file_.push_back(static_cast<std::byte>(pair));
  for (int scale = 0; scale < 256; ++scale) file_.push_back(static_cast<std::byte>(scale));
  table_.files = {{write_file("steps_mxfp4.bin", file_), file_.size()}};
  const WeightView view = dequantised(
      then(tensor("b", 0, {DType::u8, {256, 256}}), UnpackStep{Packing::f4_e2m1}), {1, 512},
      then(tensor("s", 65536, {DType::u8, {256, 1}}), UnpackStep{Packing::f8_e8m0}));
  auto values = WeightReader::open(table_)->read_f32(view, 1 << 20);
  ASSERT_TRUE(values);
  const double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (size_t i = 0; i < values->size(); ++i) {
    const size_t code = i % 2 == 0 ? i / 2 % 16 : i / 2 % 256 / 16;
    const int scale = static_cast<int>(i / 512);
    const double exact =
        std::ldexp(code < 8 ? magnitudes[code] : -magnitudes[code - 8], scale - 127);
    if (scale == 255) {
      ASSERT_TRUE(std::isnan((*values)[i])) << i;
    } else {
      ASSERT_EQ((*values)[i], static_cast<float>(exact)) << i;  // infinite from 2^128 upward
    }
  }
}

TEST_F(WeightsSteps, DecodesFourBitIntegersInGroups) {
  const WeightView rows =
      dequantised(then(tensor("p", 4, {DType::i32, {10, 9}}), UnpackStep{Packing::i4_excess8}),
                  {1, 32}, tensor("s", 4000, {DType::bf16, {10, 3}}));
  expect_as_oracle(rows);
  expect_as_oracle(then(rows, PermuteStep{{1, 0}}));
  expect_as_oracle(then(then(rows, SliceStep{1, 5, 41}), ReshapeStep{{10, 1, 41}}));
}

TEST_F(WeightsSteps, UnpacksCodesOfAnyWidth) {
  for (const Packing packing : {Packing::u1, Packing::u2, Packing::u3, Packing::u4, Packing::u6,
                                Packing::u8, Packing::i4, Packing::i8, Packing::u4_high}) {
    const WeightView rows = then(tensor("c", 5, {DType::u8, {7, 23}}), UnpackStep{packing});
    expect_as_oracle(rows);
    expect_as_oracle(then(rows, PermuteStep{{1, 0}}));
    const WeightView part = then(then(rows, SliceStep{1, 5, 17}), SliceStep{1, 2, 11});
    expect_as_oracle(part);
    expect_as_oracle(then(part, ReshapeStep{{7, 1, 11}}));
    // Stored like Core ML blobs: with unaligned rows and unused bits in the last byte.
    const WeightView blob =
        then(then(tensor("d", 5, {DType::u8, {59}}), UnpackStep{packing}), SliceStep{0, 0, 45});
    expect_as_oracle(then(blob, ReshapeStep{{5, 9}}));
    expect_as_oracle(then(then(blob, ReshapeStep{{5, 9}}), PermuteStep{{1, 0}}));
  }
}

TEST_F(WeightsSteps, UnpacksCodesOfWords) {
  for (const Packing packing : {Packing::u2_i32, Packing::u3_i32, Packing::u4_i32, Packing::u5_i32,
                                Packing::u6_i32, Packing::u8_i32, Packing::u4_awq}) {
    const WeightView rows = then(tensor("c", 5, {DType::i32, {7, 23}}), UnpackStep{packing});
    expect_as_oracle(rows);
    expect_as_oracle(then(then(rows, SliceStep{1, 5, 17}), PermuteStep{{1, 0}}));
    // Words packed along the rows, as in GPTQ checkpoints.
    expect_as_oracle(then(then(tensor("d", 5, {DType::i32, {23, 7}}), PermuteStep{{1, 0}}),
                          UnpackStep{packing}));
  }
}

TEST_F(WeightsSteps, AddsAndDividesByBlock) {
  const WeightView values = then(tensor("a", 4, {DType::bf16, {9, 20}}), CastStep{DType::f32});
  const WeightView operand = tensor("b", 4000, {DType::bf16, {9, 3}});
  for (const BlockwiseOp op : {BlockwiseOp::add, BlockwiseOp::divide}) {
    const WeightView view = then(values, BlockwiseStep{op, {1, 8}, {operand}});
    expect_as_oracle(view);
    expect_as_oracle(then(then(view, SliceStep{1, 5, 9}), PermuteStep{{1, 0}}));
  }
  const Type whole{DType::f32, {1, 1}};
  const auto report = expect_as_oracle(
      then(values, BlockwiseStep{BlockwiseOp::divide, {9, 20}, {splat_view(1e-39, whole)}}));
  EXPECT_GT(report.overflows, 0u);
}

TEST_F(WeightsSteps, GathersScalesByColumn) {
  std::vector<int32_t> indices(64);
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int32_t>(i * 7 % 5);
  std::memcpy(file_.data() + 8000, indices.data(), indices.size() * sizeof(int32_t));
  table_.files = {{write_file("steps_gather.bin", file_), file_.size()}};
  const WeightView columns = tensor("g", 8000, {DType::i32, {40}});
  const WeightView scales =
      then(tensor("s", 4000, {DType::bf16, {12, 5}}), GatherStep{1, {columns}});
  expect_as_oracle(scales);
  expect_as_oracle(then(then(scales, SliceStep{1, 3, 30}), PermuteStep{{1, 0}}));
  expect_as_oracle(
      then(tensor("a", 4, {DType::bf16, {12, 40}}), DequantStep{{1, 1}, {scales}, {}}));
}

TEST_F(WeightsSteps, RejectsGatheredIndicesOutOfRange) {
  file_.assign(64, std::byte{7});
  table_.files = {{write_file("steps_gather.bin", file_), file_.size()}};
  const WeightView view =
      then(splat_view(1, {DType::f32, {2, 4}}), GatherStep{1, {tensor("g", 0, {DType::i32, {3}})}});
  auto values = WeightReader::open(table_)->read_f32(view, 1 << 20);
  ASSERT_FALSE(values);
  EXPECT_EQ(values.error().front().code, "weights.bad_index");
}

TEST_F(WeightsSteps, SubtractsOffsetsBeforeScaling) {
  const WeightView codes = then(tensor("c", 5, {DType::u8, {12, 32}}), UnpackStep{Packing::u4});
  const WeightView zeros = then(tensor("z", 900, {DType::u8, {12, 1}}), UnpackStep{Packing::u4});
  const WeightView rows =
      then(codes, DequantStep{{1, 32}, {tensor("s", 4000, {DType::bf16, {12, 2}})}, {zeros}});
  expect_as_oracle(rows);
  expect_as_oracle(then(then(rows, SliceStep{1, 30, 9}), PermuteStep{{1, 0}}));
}

TEST_F(WeightsSteps, LooksUpTablesByRowGroup) {
  const WeightView codes = then(tensor("c", 5, {DType::u8, {8, 15}}), UnpackStep{Packing::u3});
  const WeightView view =
      then(codes, LutStep{{3, 40}, {tensor("t", 4000, {DType::f16, {3, 1, 8}})}});
  expect_as_oracle(view);
  expect_as_oracle(then(view, PermuteStep{{1, 0}}));
  expect_as_oracle(then(then(view, SliceStep{0, 2, 5}), CastStep{DType::f16}));
  expect_as_oracle(then(then(view, SliceStep{0, 4, 3}), ReshapeStep{{3, 40, 1, 1}}));
  expect_as_oracle(then(then(view, SliceStep{1, 3, 1}), ReshapeStep{{8}}));
}

TEST_F(WeightsSteps, RejectsIndicesOutsideTheTable) {
  file_.assign(64, std::byte{7});
  table_.files = {{write_file("steps_lut.bin", file_), file_.size()}};
  const WeightView codes = then(tensor("c", 0, {DType::u8, {2, 4}}), UnpackStep{Packing::u8});
  const WeightView view = then(codes, LutStep{{2, 4}, {splat_view(1, {DType::f16, {1, 1, 7}})}});
  auto values = WeightReader::open(table_)->read_f32(view, 1 << 20);
  ASSERT_FALSE(values);
  EXPECT_EQ(values.error().front().code, "weights.bad_index");
}

TEST_F(WeightsSteps, RoundsScaledValuesToTheType) {
  expect_as_oracle(then(tensor("w", 0, {DType::bf16, {64}}), ScaleStep{1.0 / 3}));
  expect_as_oracle(then(then(tensor("w", 0, {DType::bf16, {64}}), CastStep{DType::f16}),
                        ScaleStep{std::sqrt(2.0)}));
}

// Slices and reshapes of a centred view preserve the median of the whole view.
TEST_F(WeightsSteps, SubtractsTheMedianOfFiniteElements) {
  const float inf = std::numeric_limits<float>::infinity();
  file_ = bytes_of(std::vector<float>{35.5f, 34.25f, -inf, 34.5f, 36, 34, inf, NAN});
  table_.files = {{write_file("steps_center.bin", file_), file_.size()}};
  const WeightView view = then(tensor("w", 0, {DType::f32, {2, 4}}), CenterStep{});
  expect_as_oracle(view);
  expect_as_oracle(then(view, PermuteStep{{1, 0}}));
  expect_as_oracle(then(then(view, ReshapeStep{{8}}), SliceStep{0, 3, 2}), {}, 4);
  const auto values = WeightReader::open(table_)->read_f32(then(view, SliceStep{0, 0, 1}), 64);
  EXPECT_THAT(*values, testing::ElementsAre(1, -0.25f, -inf, 0));
}

TEST_F(WeightsSteps, ReturnsRoundingErrorsOfACast) {
  const WeightView view = then(tensor("w", 0, {DType::f32, {5, 7}}), ScaleStep{1.0 / 3});
  for (DType dtype : {DType::f16, DType::bf16}) {
    const WeightView low = then(view, RemainderStep{dtype});
    expect_as_oracle(low);
    expect_as_oracle(then(then(low, CastStep{dtype}), SliceStep{0, 1, 3}));
  }
  file_ = bytes_of(std::vector<float>{1.0f + 0x1p-12f, 7e4f, -INFINITY, 0.1f});
  table_.files = {{write_file("steps_remainder.bin", file_), file_.size()}};
  const WeightView low = then(tensor("v", 0, {DType::f32, {4}}), RemainderStep{DType::f16});
  const auto values = WeightReader::open(table_)->read_f32(low, 64);
  ASSERT_TRUE(values) << render(values.error());
  EXPECT_THAT(*values, testing::ElementsAre(0x1p-12f, 0, 0, 0.1f - round_to(DType::f16, 0.1f)));
}

TEST_F(WeightsSteps, AppliesFunctionsToElements) {
  const WeightView view = tensor("w", 0, {DType::f32, {5, 7}});
  for (const MapFn function : {MapFn::neg_exp, MapFn::log_neg, MapFn::plus_one, MapFn::minus_one})
    expect_as_oracle(then(then(view, MapStep{function}), SliceStep{0, 1, 3}));
  file_ = bytes_of(std::vector<float>{0, 1, 100, -INFINITY});
  table_.files = {{write_file("steps_map.bin", file_), file_.size()}};
  const WeightView rates = then(tensor("v", 0, {DType::f32, {4}}), MapStep{MapFn::neg_exp});
  const auto values = WeightReader::open(table_)->read_f32(rates, 64);
  ASSERT_TRUE(values) << render(values.error());
  const float e = static_cast<float>(-std::exp(1.0));
  EXPECT_THAT(*values, testing::ElementsAre(-1, e, -INFINITY, -0.0f));
}

TEST_F(WeightsSteps, ReadsSeededAndSplatWithoutFiles) {
  table_ = {};
  auto report = expect_as_oracle(
      then(then(seeded_view(3, {DType::f32, {6, 9}}), ScaleStep{0.05}), PermuteStep{{1, 0}}));
  EXPECT_EQ(report.bytes_read, 0u);
  expect_as_oracle(then(splat_view(1.5, {DType::f16, {3, 4}}), SliceStep{0, 1, 2}));
}

TEST_F(WeightsSteps, CountsOverflowsAndNonfiniteValues) {
  const std::vector<float> values = {1, 65519.9f, 65520, -70000, INFINITY, NAN, 1e-9f, 3e38f};
  file_ = bytes_of(values);
  table_.files = {{write_file("steps_overflow.bin", file_), file_.size()}};
  const WeightView view = then(tensor("w", 0, {DType::f32, {2, 4}}), CastStep{DType::f16});
  const StreamReport report = expect_as_oracle(view);
  EXPECT_EQ(report.elements, 8u);
  EXPECT_EQ(report.overflows, 3u);
  EXPECT_EQ(report.nonfinite, 5u);
  EXPECT_EQ(report.bytes_read, 32u);
  const StreamReport row = expect_as_oracle(then(view, SliceStep{0, 0, 1}));
  EXPECT_EQ(row.overflows, 2u);
  EXPECT_EQ(row.nonfinite, 2u);
}

// Reads all 65,536 bit patterns of a 16-bit type through the whole reader.
TEST_F(WeightsSteps, ConvertsEach16BitPattern) {
  std::vector<uint16_t> values(1 << 16);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint16_t>(i);
  const std::string path = write_file("steps_all16.bin", bytes_of(values));
  for (auto [from, to] : {std::pair{DType::bf16, DType::f16}, {DType::f16, DType::f32}}) {
    auto reader = WeightReader::open(table_of(path, values.size() * 2, {from, {256, 256}}));
    ASSERT_TRUE(reader);
    StreamReport report;
    auto found =
        stream_all(*reader, then(tensor_view("w", {from, {256, 256}}), CastStep{to}), 1000, report);
    ASSERT_TRUE(found);
    uint64_t overflows = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const float exact = naive_decode(from, i);
      uint64_t bits = 0;
      const auto width = static_cast<size_t>(dtype_bytes(to));
      std::memcpy(&bits, found->data() + i * width, width);
      const float rounded = naive_decode(to, bits);
      ASSERT_EQ(std::isnan(rounded), std::isnan(exact)) << i;
      if (!std::isnan(exact)) {
        ASSERT_EQ(bits, naive_encode(to, exact)) << i;
      }
      if (std::isfinite(exact) && std::isinf(rounded)) ++overflows;
    }
    EXPECT_EQ(report.overflows, overflows);
    const uint64_t stored = from == DType::bf16 ? 2u * 128 : 2u * 1024;  // NaN or infinite
    EXPECT_EQ(report.nonfinite, stored + overflows);
  }
}

}  // namespace
}  // namespace moec
