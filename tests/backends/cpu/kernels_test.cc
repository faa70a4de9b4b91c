#include "backends/cpu/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/vector_targets.h"

namespace moec {
namespace {

std::vector<float> random_values(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = uniform(random);
  return values;
}

// Element (r, c) in f64. `b` is row-major [inner, columns], or its transpose if `is_turned`.
double product_at(const std::vector<float>& a, const std::vector<float>& b,
                  const KernelSizes& sizes, int64_t r, int64_t c, bool is_turned) {
  double sum = 0;
  for (int64_t i = 0; i < sizes.inner; ++i) {
    const int64_t at = is_turned ? c * sizes.inner + i : i * sizes.columns + c;
    sum += double{a[static_cast<size_t>(r * sizes.inner + i)]} * double{b[static_cast<size_t>(at)]};
  }
  return sum;
}

constexpr float kUntouched = 1234.5f;

void expect_product(const KernelSizes& sizes, bool is_turned) {
  const auto a = random_values(sizes.rows * sizes.inner, 1);
  const auto b = random_values(sizes.inner * sizes.columns, 2);
  std::vector<float> out(static_cast<size_t>(sizes.rows * (sizes.columns + 1)), kUntouched);
  const MutableMatrix to{out.data(), sizes.columns + 1};
  if (is_turned)
    dot_rows({a.data(), sizes.inner}, {b.data(), sizes.inner}, sizes, to);
  else
    multiply_rows({a.data(), sizes.inner}, {b.data(), sizes.columns}, sizes, to);
  for (int64_t r = 0; r < sizes.rows; ++r) {
    for (int64_t c = 0; c < sizes.columns; ++c)
      ASSERT_NEAR(out[static_cast<size_t>(r * to.stride + c)],
                  product_at(a, b, sizes, r, c, is_turned), 1e-6 * std::sqrt(sizes.inner) + 1e-6)
          << sizes.rows << "x" << sizes.inner << "x" << sizes.columns << " at " << r << ", " << c;
    ASSERT_EQ(out[static_cast<size_t>(r * to.stride + sizes.columns)], kUntouched);
  }
}

TEST(Kernels, MatchF64Reference) {
  for_each_vector_target([] {
    for (const int64_t rows : {1, 2, 3, 7, 8, 13, 17})
      for (const int64_t inner : {1, 5, 16, 33, 130})
        for (const int64_t columns : {1, 3, 15, 16, 17, 50, 65})
          for (const bool is_turned : {false, true})
            expect_product({rows, inner, columns}, is_turned);
  });
}

// The bits of a row do not depend on which other rows are computed with it.
TEST(Kernels, KeepRowBitsAcrossBatchSizes) {
  const KernelSizes sizes{13, 77, 29};
  const auto a = random_values(sizes.rows * sizes.inner, 3);
  const auto b = random_values(sizes.inner * sizes.columns, 4);
  std::vector<float> whole(static_cast<size_t>(sizes.rows * sizes.columns));
  multiply_rows({a.data(), sizes.inner}, {b.data(), sizes.columns}, sizes,
                {whole.data(), sizes.columns});
  for (int64_t r = 0; r < sizes.rows; ++r) {
    std::vector<float> row(static_cast<size_t>(sizes.columns));
    multiply_rows({a.data() + r * sizes.inner, sizes.inner}, {b.data(), sizes.columns},
                  {1, sizes.inner, sizes.columns}, {row.data(), sizes.columns});
    const auto begin = whole.begin() + r * sizes.columns;
    EXPECT_TRUE(std::equal(row.begin(), row.end(), begin)) << r;
  }
}

TEST(Kernels, ReportTheirVectorTarget) { EXPECT_STRNE(vector_target(), ""); }

TEST(Kernels, SoftmaxesMatchF64) {
  for_each_vector_target([] {
    for (const int64_t count : {1, 3, 16, 33, 5000}) {
      auto x = random_values(count, 3);
      for (float& value : x) value *= 30;
      if (count > 2) x[1] = -std::numeric_limits<float>::infinity();
      std::vector<float> found(x.size());
      softmax_values(x.data(), count, found.data());
      const float top = *std::ranges::max_element(x);
      double sum = 0;
      for (const float value : x) sum += std::exp(double{value - top});
      for (size_t i = 0; i < x.size(); ++i) {
        const double wanted = std::exp(double{x[i] - top}) / sum;
        ASSERT_NEAR(found[i], wanted, 1e-6 * wanted + 1e-38) << count << " at " << i;
      }
    }
  });
}

TEST(Kernels, SigmoidsMatchF64) {
  for_each_vector_target([] {
    auto x = random_values(50, 4);
    for (float& value : x) value *= 120;
    std::vector<float> found = x;
    sigmoid_values(found.data(), std::ssize(found), found.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const double wanted = 1 / (1 + std::exp(-double{x[i]}));
      ASSERT_NEAR(found[i], wanted, 1e-6 * wanted + 1e-38) << x[i];
    }
  });
}

TEST(Kernels, KeepNan) {
  for_each_vector_target([] {
    for (const int64_t at : {0, 7, 18}) {
      std::vector<float> x(19, 1.0f);
      x[static_cast<size_t>(at)] = std::numeric_limits<float>::quiet_NaN();
      std::vector<float> found(x.size());
      sigmoid_values(x.data(), std::ssize(x), found.data());
      for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(std::isnan(found[i]), std::isnan(x[i])) << i;
      softmax_values(x.data(), std::ssize(x), found.data());
      for (const float value : found) ASSERT_TRUE(std::isnan(value)) << at;
    }
  });
}

}  // namespace
}  // namespace moec
