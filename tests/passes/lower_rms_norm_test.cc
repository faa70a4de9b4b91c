#include <algorithm>

#include "ir/graph/scalar.h"
#include "tests/passes/pass_testing.h"

namespace moec {
namespace {

Shard norm_shard(DType dtype, Layout layout, double eps = 1e-6) {
  Builder b("norm", Form::model);
  ValueId x = b.input("x", token_type(dtype, layout, 10, 3));
  ValueId w = seeded_weight(b, 3, dtype, {10}, 1, "w");
  b.output("y", b.emit(RmsNorm{eps}, {x, w}, "y"));
  return b.finish();
}

TEST(LowerRmsNorm, PreservesValues) {
  for (Layout layout : kTokenLayouts) {
    const Shard before = norm_shard(DType::f32, layout);
    const Shard after = run_passes(before, "lower_rms_norm");
    EXPECT_EQ(count_ops<RmsNorm>(after), 0u);
    expect_same_values(before, after, 1e-6);
  }
}

TEST(LowerRmsNorm, PreservesValuesInHalfPrecision) {
  for (DType dtype : {DType::f16, DType::bf16})
    for (Layout layout : kTokenLayouts) {
      const Shard before = norm_shard(dtype, layout);
      expect_same_values(before, run_passes(before, "lower_rms_norm"),
                         dtype == DType::f16 ? 2e-3 : 2e-2);
    }
}

TEST(LowerRmsNorm, StaysFiniteIfSquaresOverflowF16) {
  const Shard before = norm_shard(DType::f16, Layout::channels);
  std::vector<Tensor> inputs = seeded_inputs(before, 5);
  for (float& value : inputs[0].data) value = std::round(value * 8) * 4096;
  expect_same_values(before, run_passes(before, "lower_rms_norm"), inputs, 2e-3);
}

TEST(LowerRmsNorm, KeepsF32WithinTheF16Range) {
  Builder b("norm", Form::model);
  ValueId x = b.input("x", token_type(DType::f16, Layout::channels, 10, 3));
  ValueId wide = b.cast(b.add(x, x), DType::f32, "wide");
  ValueId w = seeded_weight(b, 3, DType::f32, {10}, 1, "w");
  b.output("y", b.emit(RmsNorm{1e-6}, {wide, w}, "y"));
  const Shard before = b.finish(), after = run_passes(before, "lower_rms_norm");
  expect_same_values(before, after, 1e-6);
  const auto squares = std::find_if(after.values.begin(), after.values.end(),
                                    [](const Value& value) { return value.name == "y.square"; });
  ASSERT_NE(squares, after.values.end());
  const Op& square = after.ops[squares->producer];
  EXPECT_EQ(after.values[square.operands[0]].name, "y.in_range");
}

// ---- In f16, compared with the formula in double precision
// -----------------------------------------------------

// One row per magnitude, from the smallest f16 number to the largest, and the same with one large
// element.
std::vector<std::vector<float>> rows_of_every_size(int64_t channels) {
  std::vector<std::vector<float>> rows;
  for (float size :
       {0.f, 6e-8f, 1e-6f, 1e-4f, 1e-3f, 0.02f, 1.f, 40.f, 255.f, 300.f, 30000.f, 65504.f}) {
    std::vector<float> row;
    for (int64_t c = 0; c < channels; ++c)
      row.push_back(round_to(DType::f16, size * std::cos(static_cast<float>(3 * c))));
    rows.push_back(row);
    row[1] = 30000;
    rows.push_back(row);
  }
  return rows;
}

std::vector<double> normalised(const std::vector<float>& row, double eps) {
  double squares = 0;
  for (float x : row) squares += static_cast<double>(x) * x;
  const double root = std::sqrt(squares / static_cast<double>(row.size()) + eps);
  std::vector<double> result;
  for (float x : row) result.push_back(root == 0 ? 0 : x / root);
  return result;
}

void expect_close(const std::vector<float>& got, const std::vector<double>& wanted) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    difference += std::pow(got[i] - wanted[i], 2);
    norm += std::pow(wanted[i], 2);
  }
  const double step = 0x1p-24 * std::sqrt(wanted.size());  // spacing of f16 subnormals
  EXPECT_LE(std::sqrt(difference), 3e-3 * std::sqrt(norm) + step) << got[0] << ", " << wanted[0];
}

TEST(LowerRmsNormHalfPrecision, MatchesTheFormulaAtAllMagnitudes) {
  const int64_t channels = 64;
  const auto rows = rows_of_every_size(channels);
  const Type type =
      token_type(DType::f16, Layout::rows, channels, static_cast<int64_t>(rows.size()));
  for (double eps : {1e-3, 1e-5, 1e-6, 1e-8, 1e-12, 0.0}) {
    Builder b("norm", Form::model);
    ValueId x = b.input("x", type);
    ValueId w = b.weight(splat_view(1, {DType::f16, {channels}}));
    b.output("y", b.emit(RmsNorm{eps}, {x, w}, "y"));
    const Shard shard = run_passes(b.finish(), "lower_rms_norm");
    Tensor input{type, {}};
    for (const auto& row : rows) input.data.insert(input.data.end(), row.begin(), row.end());
    const auto outputs = evaluate(shard, {input}, Precision::f16);
    ASSERT_TRUE(outputs.has_value());
    for (size_t i = 0; i < rows.size(); ++i) {
      // At the smallest f16 magnitude, the elements of a row are 2^-10 of the divisor's lower
      // bound.
      const float largest = *std::max_element(rows[i].begin(), rows[i].end());
      if (eps < 1e-8 && largest > 0 && largest < 1e-7f) continue;
      SCOPED_TRACE(testing::Message() << "eps " << eps << ", row " << i);
      const auto begin = outputs->at(0).data.begin() + static_cast<ptrdiff_t>(i * rows[i].size());
      expect_close({begin, begin + channels}, normalised(rows[i], eps));
    }
  }
}

// Padding tokens are zeros. An eps of 0, or one that rounds to 0 in the element type, must not
// produce NaN.
TEST(LowerRmsNorm, ReturnsZeroForZeroInputs) {
  for (DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (double eps : {0.0, 1e-300, 1e-30, 1e-12, 1e-6}) {
      const Shard before = norm_shard(dtype, Layout::rows, eps);
      std::vector<Tensor> inputs = seeded_inputs(before, 5);
      for (float& value : inputs[0].data) value = 0;
      for (const Shard& shard : {before, run_passes(before, "lower_rms_norm")}) {
        const std::vector<Tensor> outputs = outputs_of(shard, inputs);
        for (float value : outputs[0].data)
          EXPECT_EQ(value, 0) << dtype_name(dtype) << ", eps " << eps;
      }
    }
}

}  // namespace
}  // namespace moec
