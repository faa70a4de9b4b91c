// Error feedback (GPTQ, Frantar et al., arXiv 2210.17323): the columns of a weight are rounded one
// after the other, and the error of each is made up for by those that follow, as far as the inputs
// have them in common.
//
// With H = R·Rᵀ, R upper triangular, tr(E·H·Eᵀ) is the sum of the squares of E·R, whose column j
// has the errors of columns 0 … j alone. So column j is best rounded from w_j + Σ_{i<j} e_i·R_ij /
// R_jj, where e_i is what rounding took from column i. That is GPTQ's rule without an inverse of H.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/weights/encode/hessian.h"

namespace moec {

// What errors in some columns of a weight cost. Columns of different metrics do not interact.
struct ErrorMetric {
  int64_t first = 0, size = 0;  // the columns of the weight
  double unit = 1;              // squared error of the outputs per token = unit × tr(E·H·Eᵀ)
  std::vector<int64_t> order;   // of the columns, as they are rounded: the largest H_jj first
  std::vector<float> hessian;   // H [size, size] in this order, with mean(H_jj) = 1; may be empty
  std::vector<float> factor;    // R, column after column, with H = R·Rᵀ
};

// What of a metric is kept: H itself is needed only to fit tables (palette_refit.h).
enum class MetricParts : uint8_t { factor, factor_and_hessian };

// Bytes of the matrices of a metric.
constexpr int64_t metric_bytes(int64_t inputs, MetricParts parts) {
  const int64_t matrices = parts == MetricParts::factor ? 1 : 2;
  return matrices * inputs * inputs * static_cast<int64_t>(sizeof(float));
}

// The metric of columns first … first + inputs − 1, from the shrunk Hessian, which has passed
// check_hessian() and is factored in its own memory. Inputs that are always zero get a little
// weight, so that H has a factor.
ErrorMetric make_metric(Hessian hessian, int64_t first,
                        MetricParts parts = MetricParts::factor_and_hessian);

// The metrics of consecutive ranges of inputs, from the first one on.
std::vector<ErrorMetric> make_metrics(std::vector<Hessian> hessians, MetricParts parts);

// A matrix [rows, columns], stored column after column.
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

// Rounds values to the nearest ones that codes can hold.
class Rounder {
 public:
  virtual ~Rounder() = default;
  // Of some rows of a column, from row `first` on.
  virtual void round(int64_t column, int64_t first, std::span<const float> values,
                     std::span<uint8_t> codes, std::span<float> rounded) const = 0;
  // What their codes stand for.
  virtual void decode(int64_t column, int64_t first, std::span<const uint8_t> codes,
                      std::span<float> values) const = 0;
};

// Codes of a weight, and what the errors of each row cost: unit × tr(E·H·Eᵀ) of all metrics.
struct RoundedRows {
  Codes codes;
  std::vector<double> errors;
};

// Rounds all columns of the metrics, with errors fed forward.
RoundedRows feed_errors(const Weights& weights, std::span<const ErrorMetric> metrics,
                        const Rounder& rounder);

// The same for codes that are given.
RoundedRows cost_of(const Weights& weights, std::span<const ErrorMetric> metrics,
                    const Rounder& rounder, Codes codes);

}  // namespace moec
