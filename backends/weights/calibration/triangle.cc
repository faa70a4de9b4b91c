#include "backends/weights/calibration/triangle.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace moec {
namespace {

// Correlations lie in [-1, 1] and use all steps. Their rounding changes an element of S by at most
// 2^-16 of √(S_ii·S_jj); the diagonal is exact. Sums in f16 or bf16 would be off by 2^-12 or 2^-9
// of each element.
constexpr double kSteps = 32767;

// By Cauchy-Schwarz, |r| ≤ 1 in exact arithmetic. Rounding of the sums can exceed that slightly,
// hence the clamp.
int16_t steps_of(double correlation) {
  return static_cast<int16_t>(std::lround(std::clamp(correlation, -1.0, 1.0) * kSteps));
}

std::vector<double> roots_of(std::span<const float> diagonal) {
  std::vector<double> roots;
  for (const float moment : diagonal) roots.push_back(std::sqrt(static_cast<double>(moment)));
  return roots;
}

}  // namespace

// Offsets of row i: Σ_{k<i} (k + 1) elements of sums; or the diagonal and Σ_{k<i} k correlations,
// because row 0 has none.
uint64_t row_offset(TriangleForm form, int64_t inputs, int64_t row) {
  const auto i = static_cast<uint64_t>(row);
  if (form == TriangleForm::sums) return i * (i + 1) / 2 * sizeof(float);
  const uint64_t elements = i == 0 ? 0 : i * (i - 1) / 2;
  return static_cast<uint64_t>(inputs) * sizeof(float) + elements * sizeof(int16_t);
}

Status write_triangle(const Hessian& block,
                      const std::function<Status(std::span<const std::byte>)>& write) {
  const auto size = static_cast<size_t>(block.inputs);
  std::vector<float> diagonal(size);
  for (size_t i = 0; i < size; ++i) diagonal[i] = block.sums[i * (size + 1)];
  MOEC_TRY(write(std::as_bytes(std::span(diagonal))));
  std::vector<double> inverse = roots_of(diagonal);
  // An input that is always 0 has no correlations; 0 instead of 1 / 0 stores them as 0.
  for (double& root : inverse) root = root > 0 ? 1 / root : 0;
  std::vector<int16_t> row(size);
  for (size_t i = 1; i < size; ++i) {
    const float* sums = block.sums.data() + i * size;
    for (size_t j = 0; j < i; ++j)
      row[j] = steps_of(static_cast<double>(sums[j]) * inverse[i] * inverse[j]);
    MOEC_TRY(write(std::as_bytes(std::span(row).first(i))));
  }
  return {};
}

TriangleRows::TriangleRows(TriangleForm form, std::string_view head)
    : form_(form), diagonal_(head.size() / sizeof(float)) {
  // Rows of sums have no head, and memcpy() must not get the null pointer of an empty vector.
  if (!head.empty()) std::memcpy(diagonal_.data(), head.data(), diagonal_.size() * sizeof(float));
  roots_ = roots_of(diagonal_);
}

std::span<const float> TriangleRows::decode(int64_t row, const char* bytes) {
  const auto i = static_cast<size_t>(row);
  row_.resize(i + 1);
  if (form_ == TriangleForm::sums) {
    std::memcpy(row_.data(), bytes, row_.size() * sizeof(float));
    return row_;
  }
  const double step = roots_[i] / kSteps;
  for (size_t j = 0; j < i; ++j) {
    int16_t steps = 0;
    std::memcpy(&steps, bytes + j * sizeof steps, sizeof steps);
    row_[j] = static_cast<float>(steps * step * roots_[j]);
  }
  row_[i] = diagonal_[i];
  return row_;
}

}  // namespace moec
