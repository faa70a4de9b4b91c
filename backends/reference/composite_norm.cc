#include <cmath>

#include "backends/reference/eval.h"
#include "backends/reference/norm.h"
#include "backends/reference/tokens.h"

namespace moec {

void rms_norm(std::span<float> x, const std::vector<float>& weight, double eps) {
  // Squares of f32 fit into a double, so large values do not overflow.
  double squares = 0;
  for (float value : x) squares += static_cast<double>(value) * value;
  const double root = std::sqrt(squares / static_cast<double>(x.size()) + eps);
  // Only a row of zeros with eps 0 has this root. It stays 0; a division would give NaN.
  if (root == 0) return;
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(x[i] / root) * weight[i];
}

Tensor eval(const RmsNorm& op, const Call& call) {
  TokenRows rows = rows_of(call[0]);
  for (int64_t t = 0; t < rows.tokens; ++t) rms_norm(rows.row(t), call[1].data, op.eps);
  return tensor_of(rows, call.type());
}

}  // namespace moec
