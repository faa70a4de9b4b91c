// Error feedback (GPTQ, Frantar et al., arXiv 2210.17323): rounds the columns of a weight in
// sequence. Later columns compensate for the error of earlier ones as far as their inputs are
// correlated.
//
// With H = R·Rᵀ, R upper triangular, tr(E·H·Eᵀ) is the sum of the squares of E·R, whose column j
// depends only on the errors of columns 0 … j. So the best target for column j is w_j + Σ_{i<j}
// e_i·R_ij / R_jj, where e_i is the original minus the rounded column i. This is GPTQ's rule
// without an inverse of H.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/weights/encode/hessian.h"

namespace moec {

// Cost of errors in a range of a weight's columns. Columns of different metrics do not interact.
struct ErrorMetric {
  int64_t first = 0, size = 0;  // range of columns of the weight
  double unit = 1;              // squared error of the outputs per token = unit × tr(E·H·Eᵀ)
  std::vector<int64_t> order;   // order in which columns are rounded: largest H_jj first
  std::vector<float> hessian;   // H [size, size] in this order, with mean(H_jj) = 1; may be empty
  std::vector<float> factor;    // R, column by column, with H = R·Rᵀ
};

// Matrices that a metric keeps: H itself is needed only to fit tables (palette_refit.h).
enum class MetricParts : uint8_t { factor, factor_and_hessian };

// Returns the bytes of the matrices of a metric with `inputs` inputs.
constexpr int64_t metric_bytes(int64_t inputs, MetricParts parts) {
  const int64_t matrices = parts == MetricParts::factor ? 1 : 2;
  return matrices * inputs * inputs * static_cast<int64_t>(sizeof(float));
}

// Returns the metric of columns [first, first + inputs) from the shrunk Hessian, which must pass
// check_hessian(). The factor reuses the Hessian's memory. Inputs that are always zero get a small
// weight, so that H is positive definite.
ErrorMetric make_metric(Hessian hessian, int64_t first,
                        MetricParts parts = MetricParts::factor_and_hessian);

// Returns the metrics of consecutive ranges of inputs, starting at input 0.
std::vector<ErrorMetric> make_metrics(std::vector<Hessian> hessians, MetricParts parts);

// A matrix [rows, columns], stored column by column.
template <class T>
struct ColumnMatrix {
  int64_t rows = 0, columns = 0;
  std::vector<T> data;

  ColumnMatrix() = default;
  ColumnMatrix(int64_t r, int64_t c) : rows(r), columns(c), data(static_cast<size_t>(r * c), T{}) {}
  T* column(int64_t c) { return data.data() + c * rows; }
  const T* column(int64_t c) const { return data.data() + c * rows; }
};

using Weights = ColumnMatrix<float>;
using Codes = ColumnMatrix<uint8_t>;

// Rounds values to the nearest values that codes can represent.
class Rounder {
 public:
  virtual ~Rounder() = default;
  // Rounds values.size() rows of a column, starting at row `first`.
  virtual void round(int64_t column, int64_t first, std::span<const float> values,
                     std::span<uint8_t> codes, std::span<float> rounded) const = 0;
  // Decodes codes.size() rows of a column, starting at row `first`.
  virtual void decode(int64_t column, int64_t first, std::span<const uint8_t> codes,
                      std::span<float> values) const = 0;
};

// Codes of a weight, and the cost of each row's errors: the sum of unit × tr(E·H·Eᵀ) over all
// metrics.
struct RoundedRows {
  Codes codes;
  std::vector<double> errors;
};

// Rounds all columns of the metrics with error feedback.
RoundedRows feed_errors(const Weights& weights, std::span<const ErrorMetric> metrics,
                        const Rounder& rounder);

// Returns `codes` and the cost of each row's errors.
RoundedRows cost_of(const Weights& weights, std::span<const ErrorMetric> metrics,
                    const Rounder& rounder, Codes codes);

}  // namespace moec
