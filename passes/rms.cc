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

// The root of the mean square. With `least` above 0 the mean square and eps are at least that.
ValueId root_mean_square(Builder& b, ValueId x, int64_t axis, ValueId eps, double least) {
  ValueId mean = b.reduce(ReduceFn::mean, b.mul(x, x, "square"), axis, "mean_square");
  ValueId sum = b.add(mean, eps);
  if (least > 0) sum = b.binary(BinaryFn::max, sum, b.scalar_like(sum, least), "not_zero");
  return b.unary(UnaryFn::sqrt, sum, "rms");
}

ValueId divided_by(Builder& b, ValueId x, ValueId rms) {
  return b.mul(x, b.unary(UnaryFn::reciprocal, rms, "inverse_rms"), "normalised");
}

// number / peak for a number that f16 has only as a subnormal one, of few digits. Where the
// quotient loses digits, the peak is so large that eps does not matter.
ValueId small_quotient(Builder& b, double number, ValueId peak) {
  ValueId inverse = b.div(b.scalar_like(peak, kSmallestPeak), peak, "inverse_peak");
  return b.mul(inverse, b.scalar_like(peak, number / kSmallestPeak), "eps_root");
}

}  // namespace

// x / sqrt(mean(x²) + eps). In f16 squares overflow from |x| = 256 on and vanish below about 2^-12,
// so x is first divided by its largest magnitude, and so is the root of eps. From the root of their
// mean square follows that of x, by which x itself is divided: no element is rounded twice.
ValueId rms_normalise(Builder& b, ValueId x, int64_t axis, double eps) {
  if (b.type(x).dtype != DType::f16) {
    const double least = eps < kSmallestSquare ? kSmallestSquare : 0;
    return divided_by(b, x, root_mean_square(b, x, axis, b.scalar_like(x, eps), least));
  }
  // Both terms under the root are squares of numbers in [0, 1], whatever x and eps are.
  const double root = std::sqrt(eps);
  const bool tiny = root < kSmallestPeak;
  ValueId magnitude = b.reduce(ReduceFn::max, magnitudes(b, x), axis, "peak");
  ValueId peak =
      b.binary(BinaryFn::max, magnitude, b.scalar_like(x, std::max(root, kSmallestPeak)));
  ValueId in_range = b.div(x, peak, "in_range");
  ValueId eps_root =
      tiny ? small_quotient(b, root, peak) : b.div(b.scalar_like(x, root), peak, "eps_root");
  // A row that is not all below kSmallestPeak has a mean square of at least 1/n.
  const auto n = static_cast<double>(b.type(x).dims.at(axis));
  const double least = tiny ? std::min(kSmallestPeak, 1 / n) : 0;
  ValueId rms = root_mean_square(b, in_range, axis, b.mul(eps_root, eps_root), least);
  // Without eps the root for x itself may be a subnormal number, of few digits.
  if (tiny) return divided_by(b, in_range, rms);
  return b.div(x, b.mul(rms, peak, "rms_of_x"), "normalised");
}

}  // namespace moec
