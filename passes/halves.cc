#include "passes/halves.h"

#include <optional>
#include <utility>

#include "ir/graph/rms.h"

namespace moec {

namespace {

// Returns 1 where a is less than c, else 0, in a's element type.
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

namespace {

// -1 on the diagonal of [n, n]: the first n·n elements of rows of length n + 1 that begin with -1.
WeightView minus_identity(DType dtype, int64_t n) {
  WeightView rows =
      concat_view(1, {splat_view(-1, {dtype, {n, 1}}), splat_view(0, {dtype, {n, n}})});
  WeightView flat = then(std::move(rows), ReshapeStep{{n * (n + 1)}});
  return then(then(std::move(flat), SliceStep{0, 0, n * n}), ReshapeStep{{n, n}});
}

const Op& producer(const Builder& b, ValueId value) {
  return b.shard().ops[b.shard().values[value].producer];
}

// A rounded sum: of the products x[i]·w[i], and of the bias if it is valid.
struct Products {
  std::vector<ValueId> x, w;
  ValueId bias, sum;
};

// The view of a weight without the final rounding to its element type.
WeightView unrounded(const Weight& weight) {
  WeightView view = weight.view;
  if (!view.steps.empty() && std::holds_alternative<CastStep>(view.steps.back()))
    view.steps.pop_back();
  return view;
}

// Adds the product of x and both halves of the view.
void add_product(Builder& b, Products& products, ValueId x, const WeightView& view,
                 const std::string& name) {
  const CastStep rounded{b.type(x).dtype};
  products.x.insert(products.x.end(), {x, x});
  products.w.push_back(b.weight(then(view, rounded), name + ".weight"));
  WeightView rest = then(then(view, RemainderStep{rounded.dtype}), rounded);
  products.w.push_back(b.weight(std::move(rest), name + "_low.weight"));
}

// A projection of an RMS norm, with the norm's weights folded into the matrix.
struct NormProjection {
  ValueId x;  // input of the norm
  double eps = 0;
  WeightView matrix;
  std::optional<WeightView> bias;  // [outputs, 1]
};

// Returns empty for any other projection.
std::optional<NormProjection> norm_projection(const Builder& b, const Op& linear) {
  const Shard& shard = b.shard();
  const auto* norm = shard.producer_as<RmsNorm>(linear.operands[0]);
  const auto* matrix = shard.producer_as<Weight>(linear.operands[1]);
  if (!norm || !matrix) return {};
  const std::vector<ValueId>& of_norm = producer(b, linear.operands[0]).operands;
  const auto* scale = shard.producer_as<Weight>(of_norm[1]);
  if (!scale) return {};
  const Dims dims = b.type(linear.operands[1]).dims;
  const WeightView row = then(unrounded(*scale), ReshapeStep{{1, dims[1]}});
  WeightView folded = then(unrounded(*matrix), DequantStep{{dims[0], 1}, {row}, {}});
  NormProjection found{of_norm[0], norm->eps, std::move(folded), std::nullopt};
  if (linear.operands.size() == 2) return found;
  const auto* bias = shard.producer_as<Weight>(linear.operands[2]);
  if (!bias) return {};
  found.bias = then(unrounded(*bias), ReshapeStep{{dims[0], 1}});
  return found;
}

Products products_of(Builder& b, const NormProjection& from, LogitUnit unit,
                     const Products& logits) {
  Products products{{}, {}, logits.bias, logits.sum};
  if (unit == LogitUnit::one) {
    ValueId normalised = rms_normalise(b, from.x, kChannelAxis, from.eps);
    add_product(b, products, normalised, from.matrix, "folded");
    return products;
  }
  const ScaledRms scaled = scaled_rms(b, from.x, kChannelAxis, from.eps);
  products.sum = b.mul(logits.sum, scaled.rms, "scaled_logits");
  add_product(b, products, scaled.x, from.matrix, "folded");
  if (from.bias) add_product(b, products, scaled.rms, *from.bias, "folded_bias");
  products.bias = {};
  return products;
}

// Rounding error of the sum: a projection of the products' inputs and of the sum itself, whose
// weights are -1.
ValueId lost_by(Builder& b, Products products) {
  const Type type = b.type(products.sum);
  products.x.push_back(products.sum);
  products.w.push_back(b.weight(minus_identity(type.dtype, channels_of(type)), "minus_identity"));
  std::vector<ValueId> operands = {b.concat(products.x, kChannelAxis, "and_logits"),
                                   b.concat(products.w, 1, "low_logits.weight")};
  if (products.bias.valid()) operands.push_back(products.bias);
  return b.emit(Linear{}, std::move(operands), "low_logits");
}

}  // namespace

Halves logit_halves(Builder& b, ValueId logits, LogitUnit unit, int64_t most_channels) {
  if (!b.shard().producer_as<Linear>(logits)) return {logits, {}};
  const Op linear = producer(b, logits);
  const int64_t outputs = channels_of(b.type(logits));
  const int64_t inputs = channels_of(b.type(linear.operands[0]));
  const auto fits = [&](int64_t count) { return most_channels == 0 || count <= most_channels; };
  if (!fits(inputs + outputs)) return {logits, {}};
  const ValueId bias = linear.operands.size() > 2 ? linear.operands[2] : ValueId{};
  const Products plain{{linear.operands[0]}, {linear.operands[1]}, bias, logits};
  std::optional<NormProjection> from;
  if (fits(2 * (inputs + 1) + outputs)) from = norm_projection(b, linear);
  if (!from) return {logits, lost_by(b, plain)};
  const Products products = products_of(b, *from, unit, plain);
  ValueId low = lost_by(b, products);
  ValueId high = b.add(products.sum, low, "high_logits");
  return {high, b.sub(low, b.sub(high, products.sum), "rest_of_logits")};
}

}  // namespace moec
