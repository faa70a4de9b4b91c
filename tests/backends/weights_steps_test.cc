// Views of the kinds that the compiler makes, against the oracle, and their counts.
#include "tests/backends/weights_testing.h"

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

  StreamReport expect_as_oracle(const WeightView& view, ReaderOptions options = {}) {
    auto reader = WeightReader::open(table_, options);
    StreamReport report;
    if (!reader) return ADD_FAILURE() << render(reader.error()), report;
    auto found = stream_all(*reader, view, 100, report);
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

TEST_F(WeightsSteps, ConvWeightFromProjection) {
  expect_as_oracle(then(then(tensor("w", 6, {DType::bf16, {24, 40}}), CastStep{DType::f16}),
                        ReshapeStep{{24, 40, 1, 1}}));
}

TEST_F(WeightsSteps, TransposeReadsEachByteOnce) {
  const auto report =
      expect_as_oracle(then(tensor("w", 3, {DType::bf16, {100, 90}}), PermuteStep{{1, 0}}));
  EXPECT_EQ(report.bytes_read, 100u * 90 * 2);
}

TEST_F(WeightsSteps, TransposeInSmallBlocks) {
  expect_as_oracle(then(tensor("w", 3, {DType::bf16, {100, 90}}), PermuteStep{{1, 0}}),
                   {.gather_bytes = 1500, .band_bytes = 64});
}

TEST_F(WeightsSteps, BankOfExpertsForMatmul) {
  std::vector<WeightView> experts;
  for (int e = 0; e < 5; ++e)
    experts.push_back(then(
        tensor("e" + std::to_string(e), static_cast<uint64_t>(e) * 900, {DType::bf16, {7, 40}}),
        CastStep{DType::f32}));
  expect_as_oracle(then(concat_view(0, experts), PermuteStep{{1, 0}}));
  expect_as_oracle(then(concat_view(1, experts), ReshapeStep{{7, 200, 1, 1}}));
}

TEST_F(WeightsSteps, OneExpertOfAFusedTensor) {
  const WeightView fused = tensor("w", 0, {DType::bf16, {4, 24, 32}});
  const WeightView gate_up = then(then(fused, SliceStep{0, 2, 1}), ReshapeStep{{24, 32}});
  expect_as_oracle(then(gate_up, SliceStep{0, 12, 12}));
  expect_as_oracle(then(then(gate_up, PermuteStep{{1, 0}}), SliceStep{1, 0, 12}));
}

// Rows of pairs become rows of halves, for rotary embeddings; then the matmul form. The reshape
// joins axes that do not lie evenly.
TEST_F(WeightsSteps, ReshapeAfterPermute) {
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
TEST_F(WeightsSteps, DequantInBlocksThenSliceAndReshape) {
  const WeightView view = dequantised(tensor("w", 1, {DType::f8_e4m3, {20, 30}}), {8, 7},
                                      tensor("s", 4000, {DType::bf16, {3, 5}}));
  expect_as_oracle(view);
  const WeightView part = then(then(view, SliceStep{0, 5, 12}), SliceStep{1, 3, 20});
  expect_as_oracle(part);
  expect_as_oracle(then(part, ReshapeStep{{12, 20, 1, 1}}));
  expect_as_oracle(then(then(part, ReshapeStep{{12, 1, 20}}), PermuteStep{{2, 1, 0}}));
  expect_as_oracle(then(then(part, ReshapeStep{{240}}), SliceStep{0, 7, 100}));
}

TEST_F(WeightsSteps, ScaleRoundsToTheElementType) {
  expect_as_oracle(then(tensor("w", 0, {DType::bf16, {64}}), ScaleStep{1.0 / 3}));
  expect_as_oracle(then(then(tensor("w", 0, {DType::bf16, {64}}), CastStep{DType::f16}),
                        ScaleStep{std::sqrt(2.0)}));
}

TEST_F(WeightsSteps, SeededAndSplatNeedNoFile) {
  table_ = {};
  auto report = expect_as_oracle(
      then(then(seeded_view(3, {DType::f32, {6, 9}}), ScaleStep{0.05}), PermuteStep{{1, 0}}));
  EXPECT_EQ(report.bytes_read, 0u);
  expect_as_oracle(then(splat_view(1.5, {DType::f16, {3, 4}}), SliceStep{0, 1, 2}));
}

TEST_F(WeightsSteps, OverflowsAndNansAreCounted) {
  const std::vector<float> values = {1, 65519.9f, 65520, -70000, INFINITY, NAN, 1e-9f, 3e38f};
  file_ = bytes_of(values);
  table_.files = {{write_file("steps_overflow.bin", file_), file_.size()}};
  const WeightView view = then(tensor("w", 0, {DType::f32, {2, 4}}), CastStep{DType::f16});
  const StreamReport report = expect_as_oracle(view);
  EXPECT_EQ(report.elements, 8u);
  EXPECT_EQ(report.overflows, 3u);
  EXPECT_EQ(report.nans, 1u);
  EXPECT_EQ(report.bytes_read, 32u);
  const StreamReport row = expect_as_oracle(then(view, SliceStep{0, 0, 1}));
  EXPECT_EQ(row.overflows, 2u);
  EXPECT_EQ(row.nans, 0u);
}

// Each of the 65,536 bit patterns of one half type, through the whole reader.
TEST_F(WeightsSteps, EachBf16ToF16AndEachF16ToF32) {
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
    EXPECT_EQ(report.nans, from == DType::bf16 ? 2u * 127 : 2u * 1023);
  }
}

}  // namespace
}  // namespace moec
