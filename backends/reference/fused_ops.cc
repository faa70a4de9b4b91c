#include "backends/reference/fused_ops.h"

#include <array>
#include <cmath>

#include "backends/reference/tensor_pool.h"
#include "ir/graph/elementwise.h"

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

Tensor norm(const FusedOp& op, std::span<const Tensor* const> operands, const Type& type) {
  Tensor result = make_tensor(type);
  const float* w = operands.size() > 1 ? operands[1]->data.data() : nullptr;
  const std::span<const float> x(operands[0]->data);
  const auto size = static_cast<size_t>(op.size);
  for (size_t i = 0; i < x.size(); i += size)
    normalise(x.subspan(i, size), op.eps, w, result.data.data() + i);
  return result;
}

void rotate(const float* x, const float* cos, const float* sin, size_t half, float* to) {
  for (size_t i = 0; i < half; ++i) {
    to[i] = x[i] * cos[i] - x[half + i] * sin[i];
    to[half + i] = x[half + i] * cos[i] + x[i] * sin[i];
  }
}

Tensor rotation(std::span<const Tensor* const> operands, const Type& type) {
  Tensor result = make_tensor(type);
  const auto [x, cos, sin] = std::array{operands[0], operands[1], operands[2]};
  const auto half = static_cast<size_t>(type.dims.back()) / 2;
  // The angles of the tokens repeat for each head.
  for (size_t i = 0, angle = 0; i < x->data.size(); i += 2 * half, angle += half) {
    if (angle == cos->data.size()) angle = 0;
    rotate(x->data.data() + i, cos->data.data() + angle, sin->data.data() + angle, half,
           result.data.data() + i);
  }
  return result;
}

Tensor gate(std::span<const Tensor* const> operands, const Type& type) {
  Tensor result = make_tensor(type);
  const std::span<const float> g(operands[0]->data), u(operands[1]->data);
  for (size_t i = 0; i < g.size(); ++i)
    result.data[i] = g[i] * apply(UnaryFn::sigmoid, g[i]) * u[i];
  return result;
}

}  // namespace

Tensor eval(const FusedOp& op, std::span<const Tensor* const> operands, const Type& type) {
  switch (op.kind) {
    case FusedKind::norm:
      return norm(op, operands, type);
    case FusedKind::rotation:
      return rotation(operands, type);
    case FusedKind::gate:
      break;
  }
  return gate(operands, type);
}

}  // namespace moec
