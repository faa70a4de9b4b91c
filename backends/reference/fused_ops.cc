#include "backends/reference/fused_ops.h"

#include <algorithm>
#include <cmath>

#include "backends/reference/tensor_pool.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

// As the single ops compute it: the sum of the f32 squares is a double, everything else is f32.
void normalise(std::span<const float> x, float eps, const float* w, float* to) {
  double sum = 0;
  for (const float value : x) sum += value * value;
  const auto mean = static_cast<float>(sum / static_cast<double>(x.size()));
  const float inverse = 1.0f / std::sqrt(mean + eps);
  if (w != nullptr)
    for (size_t i = 0; i < x.size(); ++i) to[i] = x[i] * inverse * w[i];
  else
    for (size_t i = 0; i < x.size(); ++i) to[i] = x[i] * inverse;
}

Tensor norm(const FusedOp& op, std::span<const Tensor* const> operands, const Type& type,
            const Products& kernels) {
  Tensor result = make_tensor(type);
  const float* w = operands.size() > 1 ? operands[1]->data.data() : nullptr;
  const std::span<const float> x(operands[0]->data);
  const auto size = static_cast<size_t>(op.size);
  kernels.divide_lines(std::ssize(x) / op.size, op.size, [&](int64_t begin, int64_t end) {
    const size_t last = static_cast<size_t>(end) * size;
    for (size_t i = static_cast<size_t>(begin) * size; i < last; i += size)
      normalise(x.subspan(i, size), op.eps, w, result.data.data() + i);
  });
  return result;
}

void rotate(const float* x, const float* cos, const float* sin, size_t half, float* to) {
  for (size_t i = 0; i < half; ++i) {
    to[i] = x[i] * cos[i] - x[half + i] * sin[i];
    to[half + i] = x[half + i] * cos[i] + x[i] * sin[i];
  }
}

Tensor rotation(std::span<const Tensor* const> operands, const Type& type,
                const Products& kernels) {
  Tensor result = make_tensor(type);
  const Tensor &x = *operands[0], &cos = *operands[1], &sin = *operands[2];
  const auto half = static_cast<size_t>(type.dims.back()) / 2, tokens = cos.data.size() / half;
  // The angles of the tokens repeat for each head.
  kernels.divide_lines(
      std::ssize(x.data) / type.dims.back(), type.dims.back(), [&](int64_t begin, int64_t end) {
        for (auto row = static_cast<size_t>(begin); row < static_cast<size_t>(end); ++row) {
          const size_t at = row * 2 * half, angle = row % tokens * half;
          rotate(x.data.data() + at, cos.data.data() + angle, sin.data.data() + angle, half,
                 result.data.data() + at);
        }
      });
  return result;
}

Tensor gate(std::span<const Tensor* const> operands, const Type& type, const Products& kernels) {
  Tensor result = make_tensor(type);
  const float *g = operands[0]->data.data(), *u = operands[1]->data.data();
  float* to = result.data.data();
  kernels.divide_lines(std::ssize(result.data), 1, [&](int64_t begin, int64_t end) {
    kernels.sigmoid(g + begin, end - begin, to + begin);
    for (int64_t i = begin; i < end; ++i) to[i] = g[i] * to[i] * u[i];
  });
  return result;
}

Tensor guard(std::span<const Tensor* const> operands, const Type& type) {
  const float factor = operands[1]->data.front();
  if (factor == 0) return make_zeros(type);
  Tensor result = make_tensor(type);
  std::ranges::transform(operands[0]->data, result.data.begin(),
                         [&](float x) { return x * factor; });
  return result;
}

}  // namespace

Tensor eval(const FusedOp& op, std::span<const Tensor* const> operands, const Type& type,
            const Products& kernels) {
  switch (op.kind) {
    case FusedKind::norm:
      return norm(op, operands, type, kernels);
    case FusedKind::rotation:
      return rotation(operands, type, kernels);
    case FusedKind::gate:
      return gate(operands, type, kernels);
    case FusedKind::guard:
      return guard(operands, type);
    case FusedKind::sum:
      break;
  }
  MOEC_CHECK(false, "a run evaluates sums itself");
}

}  // namespace moec
