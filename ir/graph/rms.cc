#include "ir/graph/rms.h"

#include <algorithm>
#include <cmath>

namespace moec {
namespace {

// The smallest normal number of f16. Below it, peak and sqrt(eps) are subnormal and lose precision.
constexpr double kSmallestPeak = 0x1p-14;
// The smallest normal number of f32 and bf16.
constexpr double kSmallestSquare = 0x1p-126;

// Returns |x|, using ops that every target supports: it is not known whether abs runs on the Neural
// Engine.
ValueId magnitudes(Builder& b, ValueId x) {
  return b.binary(BinaryFn::max, x, b.sub(b.scalar_like(x, 0), x));
}

// sqrt(mean square + eps). If `least` is above 0, the mean square and eps are clamped to at least
// `least`.
ValueId root_mean_square(Builder& b, ValueId x, int64_t axis, ValueId eps, double least) {
  ValueId mean = b.reduce(ReduceFn::mean, b.mul(x, x, "square"), axis, "mean_square");
  ValueId sum = b.add(mean, eps);
  if (least > 0) sum = b.binary(BinaryFn::max, sum, b.scalar_like(sum, least), "not_zero");
  return b.unary(UnaryFn::sqrt, sum, "rms");
}

ValueId divided_by(Builder& b, ValueId x, ValueId rms) {
  return b.mul(x, b.unary(UnaryFn::reciprocal, rms, "inverse_rms"), "normalised");
}

// number / peak for a number that is subnormal in f16 and so loses precision. If the quotient
// underflows, the peak is so large that eps does not matter.
ValueId small_quotient(Builder& b, double number, ValueId peak) {
  ValueId inverse = b.div(b.scalar_like(peak, kSmallestPeak), peak, "inverse_peak");
  return b.mul(inverse, b.scalar_like(peak, number / kSmallestPeak), "eps_root");
}

// True if sqrt(eps) is subnormal in f16.
bool is_tiny(double eps) { return std::sqrt(eps) < kSmallestPeak; }

// peak is the largest magnitude along the axis, or sqrt(eps) if that is larger. x is the original x
// divided by peak.
struct InRange {
  ValueId x, peak;
};

InRange in_range(Builder& b, ValueId x, int64_t axis, double eps) {
  ValueId magnitude = b.reduce(ReduceFn::max, magnitudes(b, x), axis, "peak");
  const double least = std::max(std::sqrt(eps), kSmallestPeak);
  ValueId peak = b.binary(BinaryFn::max, magnitude, b.scalar_like(x, least));
  return {b.div(x, peak, "in_range"), peak};
}

// sqrt(mean of x² + eps) / peak. Both terms under the root are squares of numbers in [0, 1] for any
// x and eps.
ValueId rms_in_range(Builder& b, const InRange& range, int64_t axis, double eps) {
  const auto& [x, peak] = range;
  const double root = std::sqrt(eps);
  ValueId eps_root = is_tiny(eps) ? small_quotient(b, root, peak)
                                  : b.div(b.scalar_like(x, root), peak, "eps_root");
  // A row with an element of at least kSmallestPeak has a mean square of at least 1/n.
  const auto n = static_cast<double>(b.type(x).dims.at(axis));
  const double least = is_tiny(eps) ? std::min(kSmallestPeak, 1 / n) : 0;
  return root_mean_square(b, x, axis, b.mul(eps_root, eps_root), least);
}

// The power of two in (x, 2x] for an f16 x in [2^-4, 2^14]; x outside is clamped to these limits. y
// = x + x/2^10 has the exponent of x or is the next power of two. The difference between y and its
// product with the predecessor of 1 is half an ulp of y (Rump, Ogita, Oishi: Accurate
// floating-point summation I, algorithm 3.6).
ValueId next_power_of_two(Builder& b, ValueId x) {
  Builder::NameScope scope(b, "unit");
  ValueId above = b.binary(BinaryFn::max, x, b.scalar_like(x, 0x1p-4));
  ValueId inside = b.binary(BinaryFn::min, above, b.scalar_like(x, 0x1p14));
  ValueId more = b.mul(inside, b.scalar_like(x, 1 + 0x1p-10));
  ValueId step = b.sub(more, b.mul(more, b.scalar_like(x, 1 - 0x1p-11)));
  return b.mul(step, b.scalar_like(x, 0x1p11));
}

}  // namespace

// x / sqrt(mean(x²) + eps). In f16, squares overflow for |x| >= 256 and underflow below about
// 2^-12, so x and sqrt(eps) are first divided by the largest magnitude. The resulting root is
// scaled back and divides x itself, so that no element is rounded twice.
ValueId rms_normalise(Builder& b, ValueId x, int64_t axis, double eps) {
  return rms_normalise(b, x, axis, eps, b.type(x).dtype);
}

ValueId rms_normalise(Builder& b, ValueId x, int64_t axis, double eps, DType computed) {
  if (computed != DType::f16) {
    const double least = eps < kSmallestSquare ? kSmallestSquare : 0;
    return divided_by(b, x, root_mean_square(b, x, axis, b.scalar_like(x, eps), least));
  }
  const InRange range = in_range(b, x, axis, eps);
  ValueId rms = rms_in_range(b, range, axis, eps);
  // Without eps, the root that is scaled back may be subnormal and lose precision.
  if (is_tiny(eps)) return divided_by(b, range.x, rms);
  return b.div(x, b.mul(rms, range.peak, "rms_of_x"), "normalised");
}

ScaledRms scaled_rms(Builder& b, ValueId x, int64_t axis, double eps) {
  const InRange range = in_range(b, x, axis, eps);
  ValueId rms = rms_in_range(b, range, axis, eps);
  ValueId unit = next_power_of_two(b, range.peak);
  return {b.div(x, unit, "scaled"), b.mul(rms, b.div(range.peak, unit), "rms_of_scaled")};
}

}  // namespace moec
