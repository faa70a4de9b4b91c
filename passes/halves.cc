#include "passes/halves.h"

namespace moec {
namespace {

// 1 where a is less than c, else 0, in a's element type.
ValueId is_less(Builder& b, ValueId a, ValueId c) {
  return b.cast(b.compare(CompareFn::less, a, c), b.type(a).dtype);
}

}  // namespace

Halves two_sum(Builder& b, ValueId x, ValueId y) {
  ValueId sum = b.add(x, y);
  ValueId y_part = b.sub(sum, x);
  ValueId x_part = b.sub(sum, y_part);
  return {sum, b.add(b.sub(x, x_part), b.sub(y, y_part))};
}

Halves add_halves(Builder& b, const Halves& x, const Halves& y) {
  const Halves sum = two_sum(b, x.high, y.high);
  ValueId rest = sum.low;
  for (ValueId low : {x.low, y.low})
    if (low.valid()) rest = b.add(rest, low);
  return two_sum(b, sum.high, rest);
}

Halves centered_sigmoid(Builder& b, const Halves& x) {
  Builder::NameScope scope(b, "centered");
  const ValueId z = x.high;
  ValueId half = b.scalar_like(z, 0.5);
  ValueId minus = b.binary(BinaryFn::min, z, b.sub(b.scalar_like(z, 0), z), "minus");
  ValueId tail = b.unary(UnaryFn::sigmoid, minus, "tail");
  ValueId far = b.sub(half, tail, "far");
  ValueId far_low = b.sub(b.sub(half, far), tail, "far_low");  // exact: tail is at most 1/2
  ValueId near = b.mul(b.unary(UnaryFn::tanh, b.mul(minus, b.scalar_like(z, -0.5))), half, "near");
  ValueId is_near = is_less(b, b.scalar_like(z, 0.25), tail);
  ValueId is_far = b.sub(b.scalar_like(z, 1), is_near);
  ValueId size = b.add(b.mul(is_near, near), b.mul(is_far, far), "size");
  ValueId negative = is_less(b, z, b.scalar_like(z, 0));
  ValueId sign = b.sub(b.scalar_like(z, 1), b.mul(negative, b.scalar_like(z, 2)), "sign");
  ValueId low = b.mul(sign, b.mul(is_far, far_low), "low");
  if (x.low.valid()) {
    ValueId slope = b.mul(tail, b.sub(b.scalar_like(z, 1), tail), "slope");
    low = b.add(low, b.mul(slope, x.low));
  }
  return {b.mul(sign, size, "high"), low};
}

}  // namespace moec
