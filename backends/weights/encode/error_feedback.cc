#include "backends/weights/encode/error_feedback.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <numeric>

namespace moec {
namespace {

using Matrix = Eigen::MatrixXf;
using View = Eigen::Map<const Matrix>;

// Columns per matrix product that updates their sums.
constexpr int64_t kPanel = 128;
// Rows that are rounded together: their part of a panel stays in the CPU cache.
constexpr int64_t kRows = 256;
// kLeast: minimum H_jj relative to the mean. kDamping: first amount added to the diagonal if the
// factorization fails.
constexpr float kLeast = 1e-6f, kDamping = 1e-5f;

// Columns with large inputs are rounded first, while all later columns can still compensate for
// their errors.
std::vector<int64_t> falling_diagonal(const std::vector<float>& hessian, int64_t size) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), int64_t{0});
  auto diagonal = [&](int64_t i) { return hessian[static_cast<size_t>(i * (size + 1))]; };
  // Stable, so that equal diagonals have the same order with every standard library.
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return diagonal(a) > diagonal(b); });
  return order;
}

// Permutes the columns of a square matrix in place.
void arrange_columns(Eigen::Map<Matrix> matrix, const std::vector<int64_t>& order) {
  std::vector<bool> done(order.size());
  Eigen::VectorXf first;
  // Follows each cycle of the permutation, so that one column of extra memory suffices. A second
  // matrix would double the memory of a metric.
  for (size_t begin = 0; begin < order.size(); ++begin) {
    if (done[begin]) continue;
    first = matrix.col(static_cast<int64_t>(begin));
    size_t to = begin;
    for (auto from = static_cast<size_t>(order[to]); from != begin;
         to = from, from = static_cast<size_t>(order[from])) {
      matrix.col(static_cast<int64_t>(to)) = matrix.col(static_cast<int64_t>(from));
      done[to] = true;
    }
    matrix.col(static_cast<int64_t>(to)) = first;
    done[to] = true;
  }
}

// Permutes the rows and columns of H and divides it by `unit`.
void arrange(std::vector<float>& hessian, const std::vector<int64_t>& order, double unit) {
  const auto size = static_cast<int64_t>(order.size());
  Eigen::Map<Matrix> matrix(hessian.data(), size, size);
  arrange_columns(matrix, order);
  matrix.transposeInPlace();
  arrange_columns(matrix, order);
  // Divided by the mean of the diagonal, so that kLeast and kDamping are relative to it.
  for (float& value : hessian) value = static_cast<float>(static_cast<double>(value) / unit);
  // An input that is always 0 would make H singular.
  for (int64_t i = 0; i < size; ++i) matrix(i, i) = std::max(matrix(i, i), kLeast);
}

// Computes R in place. R is the lower Cholesky factor of H with the order of rows and columns
// reversed, reversed back. Reversing all elements of the array does both. A failed factorization
// overwrites only the lower triangle and the diagonal, which are restored from the upper triangle
// and from `diagonal`.
std::vector<float> upper_factor(std::vector<float> hessian, int64_t size) {
  std::reverse(hessian.begin(), hessian.end());
  Eigen::Map<Matrix> matrix(hessian.data(), size, size);
  const Eigen::VectorXf diagonal = matrix.diagonal();
  for (float damping = 0;; damping = std::max(kDamping, 10 * damping)) {
    matrix.diagonal() = diagonal.array() + damping;
    // In place: Ref makes LLT use the memory of `matrix`.
    const Eigen::LLT<Eigen::Ref<Matrix>> factored(matrix);
    if (factored.info() == Eigen::Success) break;
    matrix.triangularView<Eigen::StrictlyLower>() = matrix.transpose();
  }
  matrix.triangularView<Eigen::StrictlyUpper>().setZero();
  std::reverse(hessian.begin(), hessian.end());
  return hessian;
}

// Some rows of a weight, processed in the order of a metric's columns.
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

  // Rounds all columns into `result`, feeding errors forward.
  void feed(const Rounder& rounder, RoundedRows& result) {
    for (int64_t begin = 0; begin < metric_.size; begin += kPanel) {
      const int64_t count = std::min(kPanel, metric_.size - begin);
      // Invariant: before column j is rounded, column j - begin of `sums_` is Σ_{i<j} e_i·R_ij. The
      // product covers all earlier panels; the loop adds the columns of this one.
      sums_.noalias() = errors_.leftCols(begin) *
                        factor_.block(0, begin, begin, count);  // zero columns at the start
      for (int64_t j = begin; j < begin + count; ++j) {
        round_column(j, sums_.col(j - begin), rounder, result);
        const int64_t behind = begin + count - j - 1;
        sums_.rightCols(behind).noalias() += errors_.col(j) * factor_.row(j).segment(j + 1, behind);
      }
    }
  }

  // Adds the cost of the codes in `result`.
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

  // `sums` is Σ_{i<j} e_i·R_ij.
  template <class Sums>
  void round_column(int64_t j, const Sums& sums, const Rounder& rounder, RoundedRows& result) {
    const int64_t column = metric_.order[static_cast<size_t>(j)];
    const float diagonal = factor_(j, j), inverse = 1 / diagonal;
    const float* values = weights_.column(column) + first_;
    // The target of GPTQ in this form: w_j + Σ_{i<j} e_i·R_ij / R_jj.
    for (int64_t r = 0; r < rows_; ++r)
      goals_[static_cast<size_t>(r)] = values[r] + sums[r] * inverse;
    rounder.round(column, first_, goals_, codes_at(column, result), rounded_);
    take_error(j, column);
    for (int64_t r = 0; r < rows_; ++r) {
      // Column j of E·R is Σ_{i≤j} e_i·R_ij, which is (goal − rounded)·R_jj.
      const auto cost = static_cast<double>(
          (goals_[static_cast<size_t>(r)] - rounded_[static_cast<size_t>(r)]) * diagonal);
      add_cost(r, cost * cost, result);
    }
  }

  void take_error(int64_t j, int64_t column) {
    const float* values = weights_.column(column) + first_;
    // The error of the original value, not of the goal.
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

ErrorMetric make_metric(Hessian hessian, int64_t first, MetricParts parts) {
  ErrorMetric metric{first, hessian.inputs, 1, {}, {}, {}};
  std::vector<float> moments = shrunk(std::move(hessian));
  double trace = 0;
  for (int64_t i = 0; i < metric.size; ++i)
    trace += static_cast<double>(moments[static_cast<size_t>(i * (metric.size + 1))]);
  if (trace > 0) metric.unit = trace / static_cast<double>(metric.size);
  metric.order = falling_diagonal(moments, metric.size);
  arrange(moments, metric.order, metric.unit);
  if (parts == MetricParts::factor_and_hessian) metric.hessian = moments;
  metric.factor = upper_factor(std::move(moments), metric.size);
  // The metric is computed with columns counted from 0, but used with columns of the weight.
  for (int64_t& column : metric.order) column += first;
  if (trace == 0) metric.unit = 0;  // without inputs, no error has a cost
  return metric;
}

std::vector<ErrorMetric> make_metrics(std::vector<Hessian> hessians, MetricParts parts) {
  std::vector<ErrorMetric> metrics;
  int64_t first = 0;
  for (Hessian& hessian : hessians) {
    const int64_t inputs = hessian.inputs;
    metrics.push_back(make_metric(std::move(hessian), first, parts));
    first += inputs;
  }
  return metrics;
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
