#include "passes/rms.h"

#include <algorithm>
#include <cmath>

namespace moec {
namespace {

// The smallest normal number of f16, below which neither peak nor sqrt(eps) is exact enough.
constexpr double kSmallestPeak = 0x1p-14;
// The smallest normal number of f32 and bf16.
constexpr double kSmallestSquare = 0x1p-126;

// |x|, of ops that every target has: abs is not among those known to run on the Neural Engine.
ValueId magnitudes(Builder& b, ValueId x) {
  return b.binary(BinaryFn::max, x, b.sub(b.scalar_like(x, 0), x));
}

// With `least` above 0 the mean square and eps are at least that.
ValueId inverse_rms(Builder& b, ValueId x, int64_t axis, ValueId eps, double least) {
  ValueId mean = b.reduce(ReduceFn::mean, b.mul(x, x, "square"), axis, "mean_square");
  ValueId sum = b.add(mean, eps);
  if (least > 0) sum = b.binary(BinaryFn::max, sum, b.scalar_like(sum, least), "not_zero");
  return b.unary(UnaryFn::reciprocal, b.unary(UnaryFn::sqrt, sum, "rms"), "inverse_rms");
}

// number / peak for a number that f16 has only as a subnormal one, of few digits. Where the
// quotient loses digits, the peak is so large that eps does not matter.
ValueId small_quotient(Builder& b, double number, ValueId peak) {
  ValueId inverse = b.div(b.scalar_like(peak, kSmallestPeak), peak, "inverse_peak");
  return b.mul(inverse, b.scalar_like(peak, number / kSmallestPeak), "eps_root");
}

}  // namespace

// x / sqrt(mean(x²) + eps). In f16 squares overflow from |x| = 256 on and vanish below about 2^-12,
// so x is first divided by its largest magnitude, and so is the root of eps; the quotient is the
// same.
ValueId rms_normalise(Builder& b, ValueId x, int64_t axis, double eps) {
  if (b.type(x).dtype != DType::f16) {
    const double least = eps < kSmallestSquare ? kSmallestSquare : 0;
    return b.mul(x, inverse_rms(b, x, axis, b.scalar_like(x, eps), least), "normalised");
  }
  // Both terms under the root are squares of numbers in [0, 1], whatever x and eps are.
  const double root = std::sqrt(eps);
  ValueId magnitude = b.reduce(ReduceFn::max, magnitudes(b, x), axis, "peak");
  ValueId floor = b.scalar_like(x, std::max(root, kSmallestPeak));
  ValueId peak = b.binary(BinaryFn::max, magnitude, floor);
  ValueId in_range = b.div(x, peak, "in_range");
  ValueId eps_root = root < kSmallestPeak ? small_quotient(b, root, peak)
                                          : b.div(b.scalar_like(x, root), peak, "eps_root");
  // A row that is not all below kSmallestPeak has a mean square of at least 1/n.
  const auto n = static_cast<double>(b.type(x).dims.at(axis));
  const double least = root < kSmallestPeak ? std::min(kSmallestPeak, 1 / n) : 0;
  ValueId inverse = inverse_rms(b, in_range, axis, b.mul(eps_root, eps_root), least);
  return b.mul(in_range, inverse, "normalised");
}

}  // namespace moec
