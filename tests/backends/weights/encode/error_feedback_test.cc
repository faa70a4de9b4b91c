#include "backends/weights/encode/error_feedback.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backends/weights/encode/code_rounders.h"
#include "tests/backends/weights/encode/calibration_testing.h"

namespace moec {
namespace {

using Square = std::vector<std::vector<double>>;

Square square_of(const ErrorMetric& metric) {
  const auto size = static_cast<size_t>(metric.size);
  Square square(size, std::vector<double>(size));
  for (size_t i = 0; i < size; ++i)
    for (size_t j = 0; j < size; ++j)
      square[i][j] = static_cast<double>(metric.hessian[i * size + j]);
  return square;
}

// Inverts `a` by Gauss-Jordan elimination.
Square inverse_of(Square a) {
  const size_t size = a.size();
  Square inverse(size, std::vector<double>(size, 0));
  for (size_t i = 0; i < size; ++i) inverse[i][i] = 1;
  for (size_t i = 0; i < size; ++i) {
    const double pivot = a[i][i];
    for (size_t j = 0; j < size; ++j) a[i][j] /= pivot, inverse[i][j] /= pivot;
    for (size_t k = 0; k < size; ++k) {
      const double factor = k == i ? 0 : a[k][i];
      for (size_t j = 0; j < size; ++j)
        a[k][j] -= factor * a[i][j], inverse[k][j] -= factor * inverse[i][j];
    }
  }
  return inverse;
}

// Codes of a row according to Optimal Brain Quantization, with the explicit inverse of H.
std::vector<uint8_t> naive_codes(const Weights& weights, int64_t row, const ErrorMetric& metric,
                                 const Rounder& rounder) {
  Square inverse = inverse_of(square_of(metric));
  const size_t size = inverse.size();
  std::vector<double> left(size);
  std::vector<uint8_t> codes(size);
  for (size_t j = 0; j < size; ++j)
    left[j] = static_cast<double>(weights.column(metric.order[j])[row]);
  for (size_t j = 0; j < size; ++j) {
    const auto goal = static_cast<float>(left[j]);
    float rounded = 0;
    rounder.round(metric.order[j], row, std::span(&goal, 1),
                  std::span(&codes[static_cast<size_t>(metric.order[j])], 1),
                  std::span(&rounded, 1));
    const double error = (left[j] - static_cast<double>(rounded)) / inverse[j][j];
    const std::vector<double> eliminated = inverse[j];
    for (size_t k = j; k < size; ++k) left[k] -= error * eliminated[k];
    for (size_t i = 0; i < size; ++i)
      for (size_t k = 0; k < size; ++k)
        inverse[i][k] -= eliminated[i] * eliminated[k] / eliminated[j];
    for (size_t i = 0; i < size; ++i) inverse[i][j] = inverse[j][i] = 0;
    inverse[j][j] = 1;
  }
  return codes;
}

// Cost of a row: unit × e·H·eᵀ.
double naive_cost(const Weights& weights, int64_t row, const ErrorMetric& metric,
                  const Rounder& rounder, const Codes& codes) {
  const Square square = square_of(metric);
  std::vector<double> errors;
  for (int64_t column : metric.order) {
    float value = 0;
    rounder.decode(column, row, std::span(codes.column(column) + row, 1), std::span(&value, 1));
    errors.push_back(static_cast<double>(weights.column(column)[row] - value));
  }
  double cost = 0;
  for (size_t i = 0; i < errors.size(); ++i)
    for (size_t j = 0; j < errors.size(); ++j) cost += errors[i] * square[i][j] * errors[j];
  return metric.unit * cost;
}

CodeBlocks row_blocks(int64_t rows, int64_t columns) { return {rows, columns, 1, columns, false}; }

AffineRounder grid(int64_t rows, int64_t columns) {
  return {row_blocks(rows, columns), 4, std::vector<float>(static_cast<size_t>(rows), 0.4F), {}};
}

TEST(ErrorFeedback, FactorsTheOrderedShrunkHessian) {
  const ErrorMetric metric = make_metric(seeded_hessian(1, 30, 90), 5);
  const Square square = square_of(metric);
  auto factor = [&](size_t i, size_t j) { return double(metric.factor[j * 30 + i]); };
  double mean = 0;
  for (size_t i = 0; i < 30; ++i) {
    mean += square[i][i] / 30;
    if (i > 0) EXPECT_GE(square[i - 1][i - 1], square[i][i]);
    for (size_t j = 0; j < 30; ++j) {
      double product = 0;
      for (size_t k = std::max(i, j); k < 30; ++k) product += factor(i, k) * factor(j, k);
      EXPECT_NEAR(product, square[i][j], 1e-5);
      if (j < i) EXPECT_EQ(factor(i, j), 0);
    }
  }
  EXPECT_NEAR(mean, 1, 1e-5);
  EXPECT_EQ(*std::min_element(metric.order.begin(), metric.order.end()), 5);
}

TEST(ErrorFeedback, MatchesOptimalBrainQuantization) {
  const Weights weights = seeded_weights_of(2, 7, 24);
  const ErrorMetric metric = make_metric(seeded_hessian(3, 24, 200), 0);
  const AffineRounder rounder = grid(7, 24);
  const RoundedRows fed = feed_errors(weights, std::span(&metric, 1), rounder);
  for (int64_t row = 0; row < 7; ++row) {
    const std::vector<uint8_t> codes = naive_codes(weights, row, metric, rounder);
    for (int64_t c = 0; c < 24; ++c) EXPECT_EQ(fed.codes.column(c)[row], codes[size_t(c)]) << c;
  }
}

// Has more rows than a tile and more columns than a panel.
TEST(ErrorFeedback, ComputesTheCostOfCodes) {
  const Weights weights = seeded_weights_of(4, 300, 150);
  const ErrorMetric metric = make_metric(seeded_hessian(5, 150, 400), 0);
  const AffineRounder rounder = grid(300, 150);
  const RoundedRows fed = feed_errors(weights, std::span(&metric, 1), rounder);
  const RoundedRows counted = cost_of(weights, std::span(&metric, 1), rounder, fed.codes);
  for (const int64_t row : {0, 137, 299}) {
    const double naive = naive_cost(weights, row, metric, rounder, fed.codes);
    EXPECT_NEAR(fed.errors[size_t(row)], naive, 1e-4 * naive);
    EXPECT_NEAR(counted.errors[size_t(row)], naive, 1e-4 * naive);
  }
}

TEST(ErrorFeedback, EncodesColumnRangesIndependently) {
  const Weights weights = seeded_weights_of(6, 9, 40);
  const Hessian first = seeded_hessian(7, 25, 60), second = seeded_hessian(8, 15, 60);
  const std::vector<ErrorMetric> both = {make_metric(first, 0), make_metric(second, 25)};
  const AffineRounder rounder = grid(9, 40);
  const RoundedRows whole = feed_errors(weights, both, rounder);
  Weights part(9, 15);
  part.data.assign(weights.data.begin() + 25 * 9, weights.data.end());
  const ErrorMetric alone = make_metric(second, 0);
  const RoundedRows behind = feed_errors(part, std::span(&alone, 1), grid(9, 15));
  EXPECT_TRUE(std::equal(behind.codes.data.begin(), behind.codes.data.end(),
                         whole.codes.data.begin() + 25 * 9));
}

TEST(ErrorFeedback, IgnoresInputsWithoutTokens) {
  const Weights weights = seeded_weights_of(9, 3, 12);
  const ErrorMetric metric = make_metric(empty_hessian(12), 0);
  const RoundedRows fed = feed_errors(weights, std::span(&metric, 1), grid(3, 12));
  EXPECT_EQ(fed.errors, std::vector<double>(3, 0));
}

// Sums close to the limits of f32.
TEST(ErrorFeedback, AcceptsHessiansOfAnyScale) {
  for (const float scale : {1e-38F, 1e-30F, 1e30F}) {
    Hessian hessian = seeded_hessian(10, 12, 50);
    for (float& value : hessian.sums) value *= scale / 1000;
    const ErrorMetric metric = make_metric(hessian, 0);
    for (float value : metric.factor) EXPECT_TRUE(std::isfinite(value)) << scale;
  }
}

}  // namespace
}  // namespace moec
