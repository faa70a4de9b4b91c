#include "passes/expert_math.h"

#include <numbers>

namespace moec {
namespace {

// The activation of gpt-oss: gate is clamped from above only, up is clamped on both sides, and 1 is
// added to up.
ValueId clamped_swiglu(Builder& b, const Gating& gating, ValueId gate, ValueId up) {
  ValueId limit = b.scalar_like(gate, gating.limit);
  ValueId a = b.binary(BinaryFn::min, gate, limit, "gate_clamped");
  ValueId below = b.binary(BinaryFn::min, up, limit);
  ValueId c = b.binary(BinaryFn::max, below, b.scalar_like(up, -gating.limit), "up_clamped");
  ValueId open = b.unary(UnaryFn::sigmoid, b.mul(a, b.scalar_like(a, gating.alpha)));
  return b.mul(b.mul(a, open, "swish"), b.add(c, b.scalar_like(c, 1)), "hidden");
}

// x / 2 (1 + tanh(sqrt(2/π) (x + 0.044715 x³))), the approximation of GELU in arXiv 1606.08415.
// Equals x sigmoid(2 sqrt(2/π) x (1 + 0.044715 x²)), which has no cancellation for negative x and
// is finite in f16 for every x although x² may overflow.
ValueId gelu_tanh(Builder& b, ValueId x) {
  constexpr double kSlope = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  ValueId cubic = b.mul(b.mul(x, x), b.scalar_like(x, kSlope * 0.044715));
  ValueId open = b.unary(UnaryFn::sigmoid, b.mul(x, b.add(cubic, b.scalar_like(x, kSlope))));
  return b.mul(x, open, "gelu");
}

}  // namespace

ValueId biased_linear(Builder& b, ValueId x, ValueId w, ValueId bias, std::string name) {
  if (!bias.valid()) return b.linear(x, w, std::move(name));
  return b.emit(Linear{}, {x, w, bias}, std::move(name));
}

ValueId gated_product(Builder& b, const Gating& gating, ValueId gate, ValueId up) {
  switch (gating.activation) {
    case Activation::silu:
      return b.mul(b.mul(gate, b.unary(UnaryFn::sigmoid, gate), "silu"), up, "hidden");
    case Activation::gelu_tanh:
      return b.mul(gelu_tanh(b, gate), up, "hidden");
    case Activation::relu2: {
      ValueId positive = b.binary(BinaryFn::max, up, b.scalar_like(up, 0), "positive");
      return b.mul(positive, positive, "hidden");
    }
    case Activation::clamped_swiglu:
      break;
  }
  return clamped_swiglu(b, gating, gate, up);
}

GateAndUp gate_and_up(Builder& b, ValueId x, const MlpParts<ValueId>& weights,
                      const MlpParts<ValueId>& biases) {
  GateAndUp of;
  if (weights.gate.valid()) of.gate = biased_linear(b, x, weights.gate, biases.gate, "gate");
  of.up = biased_linear(b, x, weights.up, biases.up, "up");
  return of;
}

// One projection of the routing weights, with the biases as the columns of its matrix. An expert
// with weight 0 adds nothing, and no expert's result is needed.
ValueId routed_biases(Builder& b, ValueId routing, const std::vector<ValueId>& biases) {
  std::vector<ValueId> columns;
  for (ValueId bias : biases) columns.push_back(b.reshape(bias, {b.type(bias).dims[0], 1}));
  ValueId matrix = columns.size() == 1 ? columns[0] : b.concat(columns, 1, "biases.weight");
  return b.linear(routing, matrix, "biases");
}

// An expert that was not chosen may overflow, and inf · 0 is NaN. The select replaces its product
// by 0.
ValueId apply_routing(Builder& b, ValueId hidden, ValueId weight) {
  ValueId product = b.mul(hidden, weight, "routed");
  ValueId zero = b.scalar_like(hidden, 0);
  return b.select(b.compare(CompareFn::equal, weight, zero, "not_chosen"), zero, product,
                  "guarded");
}

ValueId product_of_routed(Builder& b, const Gating& gating, ValueId gate, ValueId up,
                          ValueId weight) {
  auto routed = [&](ValueId part, std::string name) {
    Builder::NameScope scope(b, std::move(name));
    return apply_routing(b, part, weight);
  };
  ValueId routed_gate = gate.valid() ? routed(gate, "gate") : gate, routed_up = routed(up, "up");
  return gated_product(b, gating, routed_gate, routed_up);
}

// A chain adds each term to the running sum. A tree adds neighbours, which shortens the chain of
// dependent additions. The two forms round differently.
ValueId sum_terms(Builder& b, std::vector<ValueId> terms, SumForm form) {
  while (terms.size() > 1) {
    std::vector<ValueId> sums;
    const size_t pairs = form == SumForm::tree ? terms.size() / 2 : 1;
    for (size_t i = 0; i < pairs; ++i) sums.push_back(b.add(terms[2 * i], terms[2 * i + 1]));
    sums.insert(sums.end(), terms.begin() + static_cast<ptrdiff_t>(2 * pairs), terms.end());
    terms = std::move(sums);
  }
  return terms.front();
}

}  // namespace moec
