#include "backends/weights/encode/error_feedback.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <numeric>

namespace moec {
namespace {

using Matrix = Eigen::MatrixXf;
using View = Eigen::Map<const Matrix>;

// Columns whose sums are brought up to date in one product.
constexpr int64_t kPanel = 128;
// Rows that are rounded together: their part of a panel stays in the processor's cache.
constexpr int64_t kRows = 256;
// The least H_jj beside their mean, and what is added to them until H has a factor.
constexpr float kLeast = 1e-6f, kDamping = 1e-5f;

std::vector<int64_t> falling_diagonal(const std::vector<float>& hessian, int64_t size) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), int64_t{0});
  auto diagonal = [&](int64_t i) { return hessian[static_cast<size_t>(i * (size + 1))]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return diagonal(a) > diagonal(b); });
  return order;
}

// H in another order of its rows and columns, divided by `unit`.
std::vector<float> arranged(const std::vector<float>& hessian, const std::vector<int64_t>& order,
                            double unit) {
  const size_t size = order.size();
  std::vector<float> to(hessian.size());
  for (size_t i = 0; i < size; ++i) {
    const float* from = hessian.data() + static_cast<size_t>(order[i]) * size;
    for (size_t j = 0; j < size; ++j)
      to[i * size + j] = static_cast<float>(static_cast<double>(from[order[j]]) / unit);
    to[i * size + i] = std::max(to[i * size + i], kLeast);
  }
  return to;
}

// R, from the factor of H with its rows and columns reversed.
std::vector<float> upper_factor(const std::vector<float>& hessian, int64_t size) {
  for (float damping = 0;; damping = std::max(kDamping, 10 * damping)) {
    Matrix reversed = View(hessian.data(), size, size).reverse();
    reversed.diagonal().array() += damping;
    const Eigen::LLT<Eigen::Ref<Matrix>> factored(reversed);
    if (factored.info() != Eigen::Success) continue;
    std::vector<float> upper(hessian.size());
    Eigen::Map<Matrix>(upper.data(), size, size) =
        Matrix(reversed.triangularView<Eigen::Lower>()).reverse();
    return upper;
  }
}

// The rows of a tile, in the order of a metric's columns.
class Tile {
 public:
  Tile(const Weights& weights, const ErrorMetric& metric, int64_t first_row)
      : weights_(weights),
        metric_(metric),
        first_(first_row),
        rows_(std::min(kRows, weights.rows - first_row)),
        factor_(metric.factor.data(), metric.size, metric.size),
        errors_(rows_, metric.size),
        goals_(static_cast<size_t>(rows_)),
        rounded_(static_cast<size_t>(rows_)) {}

  // Rounds all columns into `result`.
  void feed(const Rounder& rounder, RoundedRows& result) {
    for (int64_t begin = 0; begin < metric_.size; begin += kPanel) {
      const int64_t count = std::min(kPanel, metric_.size - begin);
      sums_.noalias() =
          errors_.leftCols(begin) * factor_.block(0, begin, begin, count);  // zero at the start
      for (int64_t j = begin; j < begin + count; ++j) {
        round_column(j, sums_.col(j - begin), rounder, result);
        const int64_t behind = begin + count - j - 1;
        sums_.rightCols(behind).noalias() += errors_.col(j) * factor_.row(j).segment(j + 1, behind);
      }
    }
  }

  // Adds what given codes cost.
  void cost(const Rounder& rounder, RoundedRows& result) {
    for (int64_t j = 0; j < metric_.size; ++j) {
      const int64_t column = metric_.order[static_cast<size_t>(j)];
      rounder.decode(column, first_, codes_at(column, result), rounded_);
      take_error(j, column);
    }
    for (int64_t begin = 0; begin < metric_.size; begin += kPanel) {
      const int64_t count = std::min(kPanel, metric_.size - begin);
      sums_.noalias() =
          errors_.leftCols(begin + count) * factor_.block(0, begin, begin + count, count);
      const Eigen::VectorXf squares = sums_.rowwise().squaredNorm();
      for (int64_t r = 0; r < rows_; ++r) add_cost(r, static_cast<double>(squares[r]), result);
    }
  }

 private:
  std::span<uint8_t> codes_at(int64_t column, RoundedRows& result) const {
    return {result.codes.column(column) + first_, static_cast<size_t>(rows_)};
  }

  // sums = Σ_{i<j} e_i·R_ij.
  template <class Sums>
  void round_column(int64_t j, const Sums& sums, const Rounder& rounder, RoundedRows& result) {
    const int64_t column = metric_.order[static_cast<size_t>(j)];
    const float diagonal = factor_(j, j), inverse = 1 / diagonal;
    const float* values = weights_.column(column) + first_;
    for (int64_t r = 0; r < rows_; ++r)
      goals_[static_cast<size_t>(r)] = values[r] + sums[r] * inverse;
    rounder.round(column, first_, goals_, codes_at(column, result), rounded_);
    take_error(j, column);
    for (int64_t r = 0; r < rows_; ++r) {
      const auto cost = static_cast<double>(
          (goals_[static_cast<size_t>(r)] - rounded_[static_cast<size_t>(r)]) * diagonal);
      add_cost(r, cost * cost, result);
    }
  }

  void take_error(int64_t j, int64_t column) {
    const float* values = weights_.column(column) + first_;
    for (int64_t r = 0; r < rows_; ++r)
      errors_(r, j) = values[r] - rounded_[static_cast<size_t>(r)];
  }

  void add_cost(int64_t row, double cost, RoundedRows& result) const {
    result.errors[static_cast<size_t>(first_ + row)] += metric_.unit * cost;
  }

  const Weights& weights_;
  const ErrorMetric& metric_;
  int64_t first_, rows_;
  View factor_;
  Matrix errors_, sums_;
  std::vector<float> goals_, rounded_;
};

}  // namespace

ErrorMetric make_metric(const Hessian& hessian, int64_t first) {
  ErrorMetric metric{first, hessian.inputs, 1, {}, {}, {}};
  const std::vector<float> moments = shrunk(hessian);
  double trace = 0;
  for (int64_t i = 0; i < metric.size; ++i)
    trace += static_cast<double>(moments[static_cast<size_t>(i * (metric.size + 1))]);
  if (trace > 0) metric.unit = trace / static_cast<double>(metric.size);
  metric.order = falling_diagonal(moments, metric.size);
  metric.hessian = arranged(moments, metric.order, metric.unit);
  metric.factor = upper_factor(metric.hessian, metric.size);
  for (int64_t& column : metric.order) column += first;
  if (trace == 0) metric.unit = 0;  // no error costs anything
  return metric;
}

RoundedRows feed_errors(const Weights& weights, std::span<const ErrorMetric> metrics,
                        const Rounder& rounder) {
  RoundedRows result{Codes(weights.rows, weights.columns), {}};
  result.errors.assign(static_cast<size_t>(weights.rows), 0);
  for (const ErrorMetric& metric : metrics)
    for (int64_t row = 0; row < weights.rows; row += kRows)
      Tile(weights, metric, row).feed(rounder, result);
  return result;
}

RoundedRows cost_of(const Weights& weights, std::span<const ErrorMetric> metrics,
                    const Rounder& rounder, Codes codes) {
  RoundedRows result{std::move(codes), {}};
  result.errors.assign(static_cast<size_t>(weights.rows), 0);
  for (const ErrorMetric& metric : metrics)
    for (int64_t row = 0; row < weights.rows; row += kRows)
      Tile(weights, metric, row).cost(rounder, result);
  return result;
}

}  // namespace moec
