// Elementwise functions on one f32 element. Constant folding and the reference executor share these
// definitions, so that folding changes no value.
#pragma once

#include <cmath>
#include <type_traits>
#include <utility>

#include "ir/graph/ops.h"

namespace moec {

inline float apply(UnaryFn fn, float x) {
  switch (fn) {
    case UnaryFn::neg:
      return -x;
    case UnaryFn::abs:
      return std::fabs(x);
    case UnaryFn::exp:
      return std::exp(x);
    case UnaryFn::log:
      return std::log(x);
    case UnaryFn::sqrt:
      return std::sqrt(x);
    case UnaryFn::reciprocal:
      return 1.0f / x;
    case UnaryFn::sigmoid:
      return 1.0f / (1.0f + std::exp(-x));
    case UnaryFn::tanh:
      return std::tanh(x);
    case UnaryFn::erf:
      return std::erf(x);
  }
  return x;
}

// max and min propagate NaN, as in ONNX; std::max would return its first operand.
inline float apply(BinaryFn fn, float a, float b) {
  switch (fn) {
    case BinaryFn::add:
      return a + b;
    case BinaryFn::sub:
      return a - b;
    case BinaryFn::mul:
      return a * b;
    case BinaryFn::div:
      return a / b;
    case BinaryFn::max:
      return std::isnan(a) || a > b ? a : b;
    case BinaryFn::min:
      return std::isnan(a) || a < b ? a : b;
  }
  return a;
}

inline bool apply(CompareFn fn, float a, float b) {
  switch (fn) {
    case CompareFn::greater:
      return a > b;
    case CompareFn::less:
      return a < b;
    case CompareFn::equal:
      return a == b;
  }
  return false;
}

// Calls visit(std::integral_constant<E, value>()) and returns its result. With a constant `fn`,
// apply() compiles without a switch, which speeds up loops over many elements.
template <class E, size_t I = 0, class Visit>
auto with_constant(E value, Visit&& visit) {
  if constexpr (I + 1 < enum_count<E>)
    if (value != static_cast<E>(I))
      return with_constant<E, I + 1>(value, std::forward<Visit>(visit));
  return visit(std::integral_constant<E, static_cast<E>(I)>{});
}

}  // namespace moec
