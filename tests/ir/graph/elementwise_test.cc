#include "ir/graph/elementwise.h"

#include <gtest/gtest.h>

namespace moec {
namespace {

TEST(Apply, ComputesUnaryFunctions) {
  EXPECT_EQ(apply(UnaryFn::neg, 2), -2);
  EXPECT_EQ(apply(UnaryFn::abs, -2), 2);
  EXPECT_FLOAT_EQ(apply(UnaryFn::exp, 1), 2.7182818f);
  EXPECT_EQ(apply(UnaryFn::log, 1), 0);
  EXPECT_EQ(apply(UnaryFn::sqrt, 9), 3);
  EXPECT_EQ(apply(UnaryFn::reciprocal, 4), 0.25f);
  EXPECT_EQ(apply(UnaryFn::sigmoid, 0), 0.5f);
  EXPECT_EQ(apply(UnaryFn::sigmoid, -200), 0);
  EXPECT_EQ(apply(UnaryFn::sigmoid, 200), 1);
  EXPECT_FLOAT_EQ(apply(UnaryFn::tanh, 0.5f), 0.46211717f);
  EXPECT_FLOAT_EQ(apply(UnaryFn::erf, 0.5f), 0.52049988f);
}

TEST(Apply, ComputesBinaryAndCompareFunctions) {
  EXPECT_EQ(apply(BinaryFn::add, 2, 3), 5);
  EXPECT_EQ(apply(BinaryFn::sub, 2, 3), -1);
  EXPECT_EQ(apply(BinaryFn::mul, 2, 3), 6);
  EXPECT_EQ(apply(BinaryFn::div, 3, 2), 1.5f);
  EXPECT_EQ(apply(BinaryFn::max, 2, 3), 3);
  EXPECT_EQ(apply(BinaryFn::min, 2, 3), 2);
  for (BinaryFn fn : {BinaryFn::max, BinaryFn::min}) {
    EXPECT_TRUE(std::isnan(apply(fn, NAN, 1)));
    EXPECT_TRUE(std::isnan(apply(fn, 1, NAN)));
  }
  EXPECT_TRUE(apply(CompareFn::greater, 2, 1));
  EXPECT_FALSE(apply(CompareFn::less, 2, 2));
  EXPECT_TRUE(apply(CompareFn::equal, 2, 2));
  EXPECT_FALSE(apply(CompareFn::equal, NAN, NAN));
}

TEST(WithConstant, VisitsEachValueAsAConstant) {
  for (size_t i = 0; i < enum_count<UnaryFn>; ++i) {
    const auto fn = static_cast<UnaryFn>(i);
    EXPECT_EQ(with_constant(fn, [](auto constant) { return decltype(constant)::value; }), fn);
  }
}

}  // namespace
}  // namespace moec
