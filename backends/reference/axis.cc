#include "backends/reference/axis.h"

#include <cmath>

#include "backends/reference/eval.h"
#include "backends/reference/tensor_pool.h"
#include "ir/base/at.h"
#include "ir/graph/elementwise.h"

namespace moec {
namespace {

// Uses BinaryFn::max, so that a NaN has the same effect as in that op.
float maximum_of(const Line& line) {
  float best = line[0];
  for (int64_t i = 1; i < line.size; ++i) best = apply(BinaryFn::max, best, line[i]);
  return best;
}

float reduced(ReduceFn fn, const Line& line) {
  switch (fn) {
    case ReduceFn::sum:
      return static_cast<float>(sum_of(line));
    case ReduceFn::mean:
      return static_cast<float>(sum_of(line) / static_cast<double>(line.size));
    case ReduceFn::max:
      return maximum_of(line);
  }
  return 0;
}

}  // namespace

Lines::Lines(const Dims& dims, int64_t axis) : size(dims.at(axis)) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i < static_cast<size_t>(axis)) outer *= dims[i];
    if (i > static_cast<size_t>(axis)) step *= dims[i];
  }
}

bool keeps_axis(const Dims& from, int64_t from_axis, const Dims& to, int64_t to_axis) {
  const Lines old_lines(from, from_axis), new_lines(to, to_axis);
  return new_lines.size == old_lines.size && new_lines.outer == old_lines.outer;
}

// Sums in double, which has 29 more fraction bits than f32. Callers round the sum to f32 once.
double sum_of(const Line& line) {
  double sum = 0;
  for (int64_t i = 0; i < line.size; ++i) sum += line[i];
  return sum;
}

void softmax(const Line& line, float* to) {
  // The maximum becomes 0 in the exponent, so that exp() cannot overflow.
  const float top = maximum_of(line);
  for (int64_t i = 0; i < line.size; ++i) to[i * line.step] = std::exp(line[i] - top);
  const auto sum = static_cast<float>(sum_of({to, line.size, line.step}));
  for (int64_t i = 0; i < line.size; ++i) to[i * line.step] /= sum;
}

// One pass per chosen element. The comparison is strict, so that the lower position wins a tie. A
// NaN is chosen only if all remaining elements are NaN.
std::vector<int64_t> largest(const Line& line, int64_t k) {
  std::vector<int64_t> chosen;
  std::vector<bool> taken(static_cast<size_t>(line.size), false);
  while (std::ssize(chosen) < k) {
    int64_t best = -1;
    for (int64_t i = 0; i < line.size; ++i) {
      if (at(taken, i)) continue;
      if (best < 0 || line[i] > line[best] || (std::isnan(line[best]) && !std::isnan(line[i])))
        best = i;
    }
    at(taken, best) = true;
    chosen.push_back(best);
  }
  return chosen;
}

Tensor eval(const Reduce& op, const Call& call) {
  const Tensor& x = call[0];
  Tensor result = make_tensor(call.type());
  auto to = result.data.begin();
  const Lines lines(x.type.dims, op.axis);
  lines.for_each([&](int64_t at) {
    *to++ = reduced(op.fn, {x.data.data() + at, lines.size, lines.step});
  });
  return result;
}

Tensor eval(const Softmax& op, const Call& call) {
  const Tensor& x = call[0];
  Tensor result = make_tensor(call.type());
  const Lines lines(x.type.dims, op.axis);
  if (call.products != nullptr && lines.step == 1) {
    call.products->divide_lines(lines.outer, lines.size, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin * lines.size; at < end * lines.size; at += lines.size)
        call.products->softmax(x.data.data() + at, lines.size, result.data.data() + at);
    });
    return result;
  }
  lines.for_each([&](int64_t at) {
    softmax({x.data.data() + at, lines.size, lines.step}, result.data.data() + at);
  });
  return result;
}

std::vector<Tensor> eval(const TopK& op, const Call& call) {
  const Tensor& x = call[0];
  const auto count = static_cast<size_t>(call.type().elements());
  std::vector<Tensor> results = {{call.types[0], std::vector<float>(count)},
                                 {call.types[1], std::vector<float>(count)}};
  const Lines lines(x.type.dims, op.axis);
  lines.for_each([&](int64_t start) {
    const Line line{x.data.data() + start, lines.size, lines.step};
    // The result has k elements along the axis instead of `lines.size`. `start` splits into the
    // outer index and the index after the axis.
    int64_t to = start / (lines.size * lines.step) * (op.k * lines.step) + start % lines.step;
    for (int64_t position : largest(line, op.k)) {
      at(results[0].data, to) = line[position];
      at(results[1].data, to) = static_cast<float>(position);
      to += lines.step;
    }
  });
  return results;
}

}  // namespace moec
