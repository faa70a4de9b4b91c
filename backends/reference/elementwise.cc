#include "ir/graph/elementwise.h"

#include <algorithm>
#include <cmath>

#include "backends/reference/broadcast.h"
#include "backends/reference/eval.h"
#include "backends/reference/tensor_pool.h"

namespace moec {
namespace {

// Steps of 1 and 0 are constants in most loops, so that the compiler can vectorize them.
template <class Fn>
void map_run(const StridedRun<2>& run, const float* x, const float* y, float* to, Fn fn) {
  const auto [x_step, y_step] = run.step;
  if (x_step == 1 && y_step == 1) {
    for (int64_t i = 0; i < run.count; ++i) to[i] = fn(x[i], y[i]);
  } else if (x_step == 1 && y_step == 0) {
    for (int64_t i = 0; i < run.count; ++i) to[i] = fn(x[i], *y);
  } else if (x_step == 0 && y_step == 1) {
    for (int64_t i = 0; i < run.count; ++i) to[i] = fn(*x, y[i]);
  } else {
    for (int64_t i = 0; i < run.count; ++i) to[i] = fn(x[i * x_step], y[i * y_step]);
  }
}

template <class Fn>
Tensor map_two(const Call& call, Fn fn) {
  const Tensor& a = call[0];
  const Tensor& b = call[1];
  Tensor result = make_tensor(call.type());
  const Dims& dims = result.type.dims;
  walk<2>(dims, {broadcast_strides(a.type.dims, dims), broadcast_strides(b.type.dims, dims)},
          [&](const StridedRun<2>& run) {
            map_run(run, a.data.data() + run.offset[0], b.data.data() + run.offset[1],
                    result.data.data() + run.index, fn);
          });
  return result;
}

// E4M3 has 3 fraction bits and a smallest normal number of 2^-6. Values beyond ±448 saturate at
// ±448, as in ONNX.
float round_to_f8(float value) {
  if (std::isnan(value) || value == 0) return value;
  // The distance between neighbouring numbers at this magnitude. Below 2^-6 the numbers are
  // subnormal and the distance stays 2^-9.
  const float quantum = std::ldexp(1.0f, std::max(std::ilogb(value), -6) - 3);
  return std::clamp(std::nearbyint(value / quantum) * quantum, -448.0f, 448.0f);
}

struct IntegerRange {
  double least, greatest;
};

// Ranges of the integer types as doubles. 2^63 - 1 rounds to 2^63, which a float represents as
// well.
IntegerRange range_of(DType dtype) {
  if (dtype == DType::u8) return {0, 255};
  if (dtype == DType::i32) return {-2147483648.0, 2147483647.0};
  return {-9223372036854775808.0, 9223372036854775807.0};
}

// Rounds toward zero and saturates; NaN becomes 0. Elements of integer types are held as floats, so
// nothing is converted to an integer type.
float truncated(float value, DType dtype) {
  if (std::isnan(value)) return 0;
  const IntegerRange range = range_of(dtype);
  return static_cast<float>(
      std::clamp(std::trunc(static_cast<double>(value)), range.least, range.greatest));
}

// The executor rounds to f16 and bf16 after each op, so only other types are converted here.
float cast_element(float value, DType dtype) {
  if (is_float(dtype)) return value;
  if (dtype == DType::boolean) return value != 0 ? 1.0f : 0.0f;
  if (dtype == DType::f8_e4m3) return round_to_f8(value);
  return truncated(value, dtype);
}

}  // namespace

Tensor eval(const Unary& op, const Call& call) {
  Tensor result = make_tensor(call.type());
  if (call.products != nullptr && op.fn == UnaryFn::sigmoid) {
    call.products->sigmoid(call[0].data.data(), std::ssize(result.data), result.data.data());
    return result;
  }
  // A constant function keeps the switch of apply() out of the loop.
  with_constant(op.fn, [&](auto fn) {
    std::transform(call[0].data.begin(), call[0].data.end(), result.data.begin(),
                   [](float value) { return apply(decltype(fn)::value, value); });
  });
  return result;
}

Tensor eval(const Binary& op, const Call& call) {
  return with_constant(op.fn, [&](auto fn) {
    return map_two(call, [](float a, float b) { return apply(decltype(fn)::value, a, b); });
  });
}

Tensor eval(const Compare& op, const Call& call) {
  return with_constant(op.fn, [&](auto fn) {
    return map_two(call,
                   [](float a, float b) { return apply(decltype(fn)::value, a, b) ? 1.0f : 0.0f; });
  });
}

Tensor eval(const Select&, const Call& call) {
  Tensor result = make_tensor(call.type());
  const Dims& dims = result.type.dims;
  std::array<PerAxis, 3> strides;
  for (size_t n = 0; n < 3; ++n) strides[n] = broadcast_strides(call[n].type.dims, dims);
  walk<3>(dims, strides, [&](const StridedRun<3>& run) {
    float* to = result.data.data() + run.index;
    std::array<const float*, 3> from;
    for (size_t n = 0; n < 3; ++n) from[n] = call[n].data.data() + run.offset[n];
    const auto [condition, yes, no] = from;
    const auto [condition_step, yes_step, no_step] = run.step;
    for (int64_t i = 0; i < run.count; ++i)
      to[i] = condition[i * condition_step] != 0 ? yes[i * yes_step] : no[i * no_step];
  });
  return result;
}

Tensor eval(const Cast& op, const Call& call) {
  Tensor result = make_tensor(call.type());
  const std::vector<float>& from = call[0].data;
  if (is_float(op.dtype))
    std::ranges::copy(from, result.data.begin());
  else if (op.dtype == DType::boolean)
    std::ranges::transform(from, result.data.begin(),
                           [](float value) { return value != 0 ? 1.0f : 0.0f; });
  else
    std::ranges::transform(from, result.data.begin(),
                           [&](float value) { return cast_element(value, op.dtype); });
  return result;
}

}  // namespace moec
