#include "passes/rms.h"

namespace moec {
namespace {

// The smallest normal number of f16: keeps the reciprocal of a zero vector's magnitude finite.
constexpr double kSmallestPeak = 0x1p-14;

ValueId inverse_rms(Builder& b, ValueId x, int64_t axis, ValueId eps) {
  ValueId mean = b.reduce(ReduceFn::mean, b.mul(x, x, "square"), axis, "mean_square");
  return b.unary(UnaryFn::reciprocal, b.unary(UnaryFn::sqrt, b.add(mean, eps), "rms"),
                 "inverse_rms");
}

}  // namespace

ValueId rms_normalise(Builder& b, ValueId x, int64_t axis, double eps) {
  ValueId eps_value = b.scalar_like(x, eps);
  if (b.type(x).dtype == DType::f16) {
    ValueId magnitude = b.reduce(ReduceFn::max, b.unary(UnaryFn::abs, x), axis, "peak");
    ValueId peak = b.binary(BinaryFn::max, magnitude, b.scalar_like(x, kSmallestPeak));
    ValueId inverse_peak = b.unary(UnaryFn::reciprocal, peak, "inverse_peak");
    x = b.mul(x, inverse_peak, "in_range");
    // One factor at a time: the square of the inverse alone may overflow.
    eps_value = b.mul(b.mul(inverse_peak, eps_value), inverse_peak);
  }
  return b.mul(x, inverse_rms(b, x, axis, eps_value), "normalised");
}

}  // namespace moec
