#include "backends/reference/fused_ops.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "backends/reference/broadcast.h"
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

// Adds the terms of a run to the ranks. The steps are those of a, b, c and the ranks.
void add_ranks(const StridedRun<4>& run, const float* a, const float* b, const float* c,
               float* to) {
  const auto add = [&](int64_t a_step, int64_t b_step, int64_t c_step, int64_t to_step) {
    for (int64_t i = 0; i < run.count; ++i) {
      // All three are read, because the compiler does not vectorize reads under a condition.
      const float rival = a[i * a_step], self = b[i * b_step], tie = c[i * c_step];
      const float larger = rival > self ? 1.0f : 0.0f;
      to[i * to_step] += rival == self ? tie : larger;
    }
  };
  // With constant steps, the compiler vectorizes the loop: along the selves of one token, and along
  // the tokens of a pair.
  using Steps = std::array<int64_t, 4>;
  if (run.step == Steps{0, 1, 1, 1}) return add(0, 1, 1, 1);
  if (run.step == Steps{1, 1, 0, 1}) return add(1, 1, 0, 1);
  add(run.step[0], run.step[1], run.step[2], run.step[3]);
}

Tensor rank(const FusedOp& op, std::span<const Tensor* const> operands, const Type& type) {
  Tensor result = make_zeros(type);
  PerAxis dims(type.dims);
  dims[static_cast<size_t>(op.axis)] = op.size;
  std::array<PerAxis, 4> strides;
  for (size_t n = 0; n < operands.size(); ++n)
    strides[n] = broadcast_strides(operands[n]->type.dims, dims);
  strides[3] = broadcast_strides(type.dims, dims);
  walk<4>(dims, strides, [&](const StridedRun<4>& run) {
    add_ranks(run, operands[0]->data.data() + run.offset[0],
              operands[1]->data.data() + run.offset[1], operands[2]->data.data() + run.offset[2],
              result.data.data() + run.offset[3]);
  });
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
    case FusedKind::rank:
      return rank(op, operands, type);
    case FusedKind::sum:
      break;
  }
  MOEC_CHECK(false, "a run evaluates sums itself");
}

}  // namespace moec
