// Evaluates each general op on literal values.
#include <cmath>

#include "tests/backends/reference/testing.h"

namespace moec {
namespace {

using testing::ElementsAre;
using testing::FloatEq;
using testing::FloatNear;
using testing::Pointwise;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> unary(UnaryFn fn, std::vector<float> x) {
  const auto size = static_cast<int64_t>(x.size());
  return run_op(Unary{fn}, {plain({size}, std::move(x))})[0].data;
}

TEST(ReferenceUnary, ComputesEachFunction) {
  EXPECT_THAT(unary(UnaryFn::neg, {1, -2, 0.5f}), ElementsAre(-1, 2, -0.5f));
  EXPECT_THAT(unary(UnaryFn::abs, {1, -2, 0}), ElementsAre(1, 2, 0));
  EXPECT_THAT(unary(UnaryFn::exp, {0, 1, -1}),
              Pointwise(FloatEq(), {1.0f, 2.7182818f, 0.36787945f}));
  EXPECT_THAT(unary(UnaryFn::log, {1, 2.7182818f}), Pointwise(FloatNear(1e-6f), {0.0f, 1.0f}));
  EXPECT_THAT(unary(UnaryFn::sqrt, {0, 4, 2}), Pointwise(FloatEq(), {0.0f, 2.0f, 1.4142135f}));
  EXPECT_THAT(unary(UnaryFn::reciprocal, {4, -0.5f}), ElementsAre(0.25f, -2));
  EXPECT_THAT(unary(UnaryFn::sigmoid, {0, 2, -2}),
              Pointwise(FloatEq(), {0.5f, 0.880797f, 0.11920292f}));
  EXPECT_THAT(unary(UnaryFn::tanh, {0, 1}), Pointwise(FloatEq(), {0.0f, 0.7615942f}));
  EXPECT_THAT(unary(UnaryFn::erf, {0, 0.5f}), Pointwise(FloatEq(), {0.0f, 0.5204999f}));
}

std::vector<float> binary(BinaryFn fn, const Tensor& a, const Tensor& b) {
  return run_op(Binary{fn}, {a, b})[0].data;
}

TEST(ReferenceBinary, ComputesEachFunction) {
  const Tensor a = plain({3}, {6, -4, 1}), b = plain({3}, {2, 8, 1});
  EXPECT_THAT(binary(BinaryFn::add, a, b), ElementsAre(8, 4, 2));
  EXPECT_THAT(binary(BinaryFn::sub, a, b), ElementsAre(4, -12, 0));
  EXPECT_THAT(binary(BinaryFn::mul, a, b), ElementsAre(12, -32, 1));
  EXPECT_THAT(binary(BinaryFn::div, a, b), ElementsAre(3, -0.5f, 1));
  EXPECT_THAT(binary(BinaryFn::max, a, b), ElementsAre(6, 8, 1));
  EXPECT_THAT(binary(BinaryFn::min, a, b), ElementsAre(2, -4, 1));
}

TEST(ReferenceBinary, PropagatesNanInMaxAndMin) {
  const Tensor a = plain({2}, {kNan, 1}), b = plain({2}, {1, kNan});
  for (BinaryFn fn : {BinaryFn::max, BinaryFn::min})
    for (float value : binary(fn, a, b)) EXPECT_TRUE(std::isnan(value));
}

TEST(ReferenceBinary, BroadcastsUnitSizesAndScalars) {
  const Tensor matrix = plain({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(binary(BinaryFn::add, matrix, plain({}, {10})), ElementsAre(11, 12, 13, 14, 15, 16));
  EXPECT_THAT(binary(BinaryFn::sub, plain({}, {10}), matrix), ElementsAre(9, 8, 7, 6, 5, 4));
  EXPECT_THAT(binary(BinaryFn::mul, matrix, plain({1, 3}, {1, 10, 100})),
              ElementsAre(1, 20, 300, 4, 50, 600));
  EXPECT_THAT(binary(BinaryFn::mul, matrix, plain({2, 1}, {1, 10})),
              ElementsAre(1, 2, 3, 40, 50, 60));
  EXPECT_THAT(binary(BinaryFn::sub, plain({2, 1}, {10, 20}), plain({1, 3}, {1, 2, 3})),
              ElementsAre(9, 8, 7, 19, 18, 17));
  EXPECT_THAT(binary(BinaryFn::add, plain({2, 1, 2}, {0, 1, 2, 3}), plain({1, 2, 1}, {10, 20})),
              ElementsAre(10, 11, 20, 21, 12, 13, 22, 23));
}

TEST(ReferenceCompare, ComputesEachFunction) {
  const Tensor a = plain({4}, {1, 2, 3, kNan}), b = plain({4}, {2, 2, 2, kNan});
  EXPECT_THAT(run_op(Compare{CompareFn::greater}, {a, b})[0].data, ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(run_op(Compare{CompareFn::less}, {a, b})[0].data, ElementsAre(1, 0, 0, 0));
  const Tensor equal = run_op(Compare{CompareFn::equal}, {a, b})[0];
  EXPECT_THAT(equal.data, ElementsAre(0, 1, 0, 0));
  EXPECT_EQ(equal.type.dtype, DType::boolean);
}

TEST(ReferenceSelect, IgnoresTheUnselectedBranch) {
  const Tensor condition = plain({4}, {1, 0, 1, 0}, DType::boolean);
  EXPECT_THAT(run_op(Select{}, {condition, plain({4}, {1, kNan, 2, kInf}), plain({}, {0})})[0].data,
              ElementsAre(1, 0, 2, 0));
}

TEST(ReferenceSelect, BroadcastsTheCondition) {
  const Tensor condition = plain({2, 1}, {1, 0}, DType::boolean);
  EXPECT_THAT(
      run_op(Select{}, {condition, plain({1, 3}, {1, 2, 3}), plain({2, 3}, {4, 5, 6, 7, 8, 9})})[0]
          .data,
      ElementsAre(1, 2, 3, 7, 8, 9));
}

std::vector<float> cast(std::vector<float> x, DType to) {
  const auto size = static_cast<int64_t>(x.size());
  return run_op(Cast{to}, {plain({size}, std::move(x))})[0].data;
}

TEST(ReferenceCast, RoundsToF16AndBf16) {
  EXPECT_THAT(cast({1.0f + 1.0f / 2048, 65520, 65519, -1e-8f}, DType::f16),
              ElementsAre(1, kInf, 65504, 0));
  EXPECT_THAT(cast({1.0f + 1.0f / 256, 1.0f + 3.0f / 256}, DType::bf16),
              ElementsAre(1, 1.0f + 4.0f / 256));
}

TEST(ReferenceCast, TruncatesAndSaturatesIntegers) {
  EXPECT_THAT(cast({1.9f, -1.9f, kNan}, DType::i64), ElementsAre(1, -1, 0));
  EXPECT_THAT(cast({300, -3, 7.5f}, DType::u8), ElementsAre(255, 0, 7));
  EXPECT_THAT(cast({1e20f, -1e20f}, DType::i32), ElementsAre(2147483648.0f, -2147483648.0f));
  EXPECT_THAT(cast({0, -0.0f, 0.25f, kNan}, DType::boolean), ElementsAre(0, 0, 1, 1));
}

// 16 and 18 are neighbours in E4M3, and the tie 17 rounds to even. 2^-9 is the smallest positive
// value.
TEST(ReferenceCast, RoundsToF8) {
  EXPECT_THAT(cast({17, 19, 448, 460, 1000, -1000}, DType::f8_e4m3),
              ElementsAre(16, 20, 448, 448, 448, -448));
  EXPECT_THAT(cast({0x1p-9f, 0x1.8p-9f, 0x1p-10f, 0x1.1p-10f}, DType::f8_e4m3),
              ElementsAre(0x1p-9f, 0x1p-8f, 0, 0x1p-9f));
}

TEST(ReferenceReduce, ReducesAlongEachAxis) {
  const Tensor x = plain({2, 3}, {1, 2, 3, 4, 5, 7});
  EXPECT_THAT(run_op(Reduce{ReduceFn::sum, 0}, {x})[0].data, ElementsAre(5, 7, 10));
  EXPECT_THAT(run_op(Reduce{ReduceFn::sum, 1}, {x})[0].data, ElementsAre(6, 16));
  EXPECT_THAT(run_op(Reduce{ReduceFn::mean, 1}, {x})[0].data, ElementsAre(2, 16.0f / 3));
  EXPECT_THAT(run_op(Reduce{ReduceFn::max, 0}, {x})[0].data, ElementsAre(4, 5, 7));
  EXPECT_EQ(run_op(Reduce{ReduceFn::max, 0}, {x})[0].type.dims, (Dims{1, 3}));
  const Tensor cube = plain({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_THAT(run_op(Reduce{ReduceFn::sum, 1}, {cube})[0].data, ElementsAre(4, 6, 12, 14));
}

TEST(ReferenceSoftmax, AvoidsOverflowAlongEachAxis) {
  const float big = 1 / (1 + std::exp(-1.0f)), small = 1 - big;
  const Tensor x = plain({2, 2}, {1000, 1001, 3, 3});
  EXPECT_THAT(run_op(Softmax{1}, {x})[0].data,
              Pointwise(FloatNear(1e-6f), {small, big, 0.5f, 0.5f}));
  const Tensor y = plain({2, 2}, {0, 5, 1, 5});
  EXPECT_THAT(run_op(Softmax{0}, {y})[0].data,
              Pointwise(FloatNear(1e-6f), {small, 0.5f, big, 0.5f}));
}

TEST(ReferenceTopK, SortsDescendingWithTiesByIndex) {
  const auto results = run_op(TopK{3, 1}, {plain({2, 4}, {1, 3, 3, 2, 0, 0, 0, 0})});
  EXPECT_THAT(results[0].data, ElementsAre(3, 3, 2, 0, 0, 0));
  EXPECT_THAT(results[1].data, ElementsAre(1, 2, 3, 0, 1, 2));
  EXPECT_EQ(results[1].type.dtype, DType::i64);
}

TEST(ReferenceTopK, SortsNanLastAlongInnerAxes) {
  const auto results = run_op(TopK{2, 0}, {plain({3, 2}, {kNan, 1, 5, 2, 4, 3})});
  EXPECT_THAT(results[0].data, ElementsAre(5, 3, 4, 2));
  EXPECT_THAT(results[1].data, ElementsAre(1, 2, 2, 1));
}

TEST(ReferenceShape, SlicesAlongEachAxis) {
  const Tensor x = plain({2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  EXPECT_THAT(run_op(Slice{1, 1, 2}, {x})[0].data, ElementsAre(2, 3, 4, 5, 8, 9, 10, 11));
  EXPECT_THAT(run_op(Slice{2, 1, 1}, {x})[0].data, ElementsAre(1, 3, 5, 7, 9, 11));
  EXPECT_THAT(run_op(Slice{0, 1, 1}, {x})[0].data, ElementsAre(6, 7, 8, 9, 10, 11));
}

TEST(ReferenceShape, ConcatenatesAlongEachAxis) {
  const Tensor a = plain({2, 1}, {1, 2}), b = plain({2, 2}, {3, 4, 5, 6});
  EXPECT_THAT(run_op(Concat{1}, {a, b})[0].data, ElementsAre(1, 3, 4, 2, 5, 6));
  EXPECT_THAT(run_op(Concat{0}, {b, b})[0].data, ElementsAre(3, 4, 5, 6, 3, 4, 5, 6));
}

TEST(ReferenceShape, ReshapesInRowMajorOrder) {
  const Tensor y = run_op(Reshape{{3, 2}, Layout::rows}, {plain({2, 3}, {1, 2, 3, 4, 5, 6})})[0];
  EXPECT_THAT(y.data, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(y.type, (Type{DType::f32, {3, 2}, Layout::rows}));
}

TEST(ReferenceShape, PermutesAxes) {
  const Tensor x = plain({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(run_op(Transpose{{1, 0}}, {x})[0].data, ElementsAre(1, 4, 2, 5, 3, 6));
  const Tensor cube = plain({1, 2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor turned = run_op(Transpose{{2, 0, 1}}, {cube})[0];
  EXPECT_EQ(turned.type.dims, (Dims{3, 1, 2}));
  EXPECT_THAT(turned.data, ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST(ReferenceMatMul, MultipliesSmallMatrices) {
  EXPECT_THAT(
      run_op(MatMul{}, {plain({2, 3}, {1, 2, 3, 4, 5, 6}), plain({3, 2}, {1, 0, 0, 1, 2, -1})})[0]
          .data,
      ElementsAre(7, -1, 16, -1));
}

TEST(ReferenceMatMul, BroadcastsLeadingSizes) {
  const Tensor a = plain({2, 1, 1, 2}, {1, 2, 3, 4});
  const Tensor b = plain({1, 3, 2, 1}, {1, 1, 1, 0, 0, 1});
  const Tensor y = run_op(MatMul{}, {a, b})[0];
  EXPECT_EQ(y.type.dims, (Dims{2, 3, 1, 1}));
  EXPECT_THAT(y.data, ElementsAre(3, 1, 2, 7, 3, 4));
}

TEST(ReferenceConv, ComputesPointwiseConvWithBias) {
  const Tensor x = tokens(Layout::channels, 2, 3, {1, 2, 3, 4, 5, 6});
  const Tensor w = plain({2, 3, 1, 1}, {1, 1, 1, 1, 0, -1}), b = plain({2}, {10, 20});
  EXPECT_THAT(rows_in(run_op(Conv{}, {x, w})[0]), ElementsAre(6, -2, 15, -2));
  EXPECT_THAT(rows_in(run_op(Conv{}, {x, w, b})[0]), ElementsAre(16, 18, 25, 18));
}

// y[t] = Σ_k w[k] · x[t + k]
TEST(ReferenceConv, ComputesConvWithALongerKernel) {
  const Tensor x = tokens(Layout::channels, 4, 1, {1, 2, 4, 8});
  EXPECT_THAT(run_op(Conv{}, {x, plain({1, 1, 3, 1}, {1, 10, 100})})[0].data,
              ElementsAre(421, 842));
  const Tensor two = tokens(Layout::channels, 3, 2, {1, 10, 2, 20, 3, 30});
  EXPECT_THAT(rows_in(run_op(Conv{}, {two, plain({1, 2, 2, 1}, {1, 2, 3, 4})})[0]),
              ElementsAre(1 + 4 + 30 + 80, 2 + 6 + 60 + 120));
}

TEST(ReferenceConv, ConvolvesGroupsSeparately) {
  const Tensor x = tokens(Layout::channels, 1, 4, {1, 2, 3, 4});
  EXPECT_THAT(run_op(Conv{2}, {x, plain({2, 2, 1, 1}, {1, 1, 10, 10})})[0].data,
              ElementsAre(3, 70));
  const Tensor longer = tokens(Layout::channels, 2, 2, {1, 10, 2, 20});
  EXPECT_THAT(run_op(Conv{2}, {longer, plain({2, 1, 2, 1}, {1, 1, 2, 3})})[0].data,
              ElementsAre(3, 80));
}

TEST(ReferenceConstant, ExpandsSplatsAndLists) {
  EXPECT_THAT(run_op(Constant{{DType::f32, {3}}, {2.5}}, {})[0].data,
              ElementsAre(2.5f, 2.5f, 2.5f));
  EXPECT_THAT(run_op(Constant{{DType::i64, {3}}, {0, 1, 2}}, {})[0].data, ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace moec
