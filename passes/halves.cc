#include "passes/halves.h"

#include "passes/rms.h"

namespace moec {
namespace {

// 1 where a is less than c, else 0, in a's element type.
ValueId is_less(Builder& b, ValueId a, ValueId c) {
  return b.cast(b.compare(CompareFn::less, a, c), b.type(a).dtype);
}

// -1 on the diagonal of [n, n]: the first n·n elements of rows of n + 1 that begin with -1.
WeightView minus_identity(DType dtype, int64_t n) {
  WeightView rows =
      concat_view(1, {splat_view(-1, {dtype, {n, 1}}), splat_view(0, {dtype, {n, n}})});
  WeightView flat = then(std::move(rows), ReshapeStep{{n * (n + 1)}});
  return then(then(std::move(flat), SliceStep{0, 0, n * n}), ReshapeStep{{n, n}});
}

const Op& producer(const Builder& b, ValueId value) {
  return b.shard().ops[b.shard().values[value].producer];
}

// The sum of x[i]·w[i] is a projection.
struct Products {
  std::vector<ValueId> x, w;
};

// Turns the projection of an RMS norm by w into one of the normalised values by w·v, where v are
// the weights of the norm: both halves of that product are stored. False where it is another
// projection.
bool fold_norm(Builder& b, Products& products) {
  const ValueId x = products.x[0], w = products.w[0];
  const auto* norm = b.shard().producer_as<RmsNorm>(x);
  const auto* matrix = b.shard().producer_as<Weight>(w);
  if (!norm || !matrix) return false;
  const auto* scale = b.shard().producer_as<Weight>(producer(b, x).operands[1]);
  if (!scale) return false;
  const DType dtype = b.type(w).dtype;
  const Dims dims = b.type(w).dims;
  const WeightView row = then(scale->view, ReshapeStep{{1, dims[1]}});
  const WeightView product = then(matrix->view, DequantStep{{dims[0], 1}, {row}, {}});
  const WeightView rest = then(product, RemainderStep{dtype});
  const double eps = norm->eps;
  ValueId normalised = rms_normalise(b, producer(b, x).operands[0], kChannelAxis, eps);
  ValueId high = b.weight(then(product, CastStep{dtype}), "folded.weight");
  ValueId low = b.weight(then(rest, CastStep{dtype}), "folded_low.weight");
  products = {{normalised, normalised}, {high, low}};
  return true;
}

}  // namespace

Halves logit_halves(Builder& b, ValueId logits, int64_t most_channels) {
  if (!b.shard().producer_as<Linear>(logits)) return {logits, {}};
  std::vector<ValueId> operands = producer(b, logits).operands;
  const DType dtype = b.type(logits).dtype;
  const int64_t outputs = channels_of(b.type(logits)), inputs = channels_of(b.type(operands[0]));
  const auto fits = [&](int64_t count) { return most_channels == 0 || count <= most_channels; };
  if (!fits(inputs + outputs)) return {logits, {}};
  Products products{{operands[0]}, {operands[1]}};
  const bool folds = fits(2 * inputs + outputs) && fold_norm(b, products);
  products.x.push_back(logits);
  products.w.push_back(b.weight(minus_identity(dtype, outputs), "minus_identity"));
  operands[0] = b.concat(products.x, kChannelAxis, "and_logits");
  operands[1] = b.concat(products.w, 1, "low_logits.weight");
  ValueId low = b.emit(Linear{}, std::move(operands), "low_logits");
  if (!folds) return {logits, low};
  ValueId high = b.add(logits, low, "high_logits");
  return {high, b.sub(low, b.sub(high, logits), "rest_of_logits")};
}

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
