#include <algorithm>

#include "backends/reference/eval.h"
#include "backends/reference/tokens.h"
#include "ir/base/at.h"
#include "ir/graph/composite_operands.h"
#include "ir/graph/scalar.h"

namespace moec {
namespace {

float activate(const Gating& gating, float gate, float up) {
  switch (gating.activation) {
    case Activation::silu:
      return gate * apply(UnaryFn::sigmoid, gate) * up;
    case Activation::clamped_swiglu: {
      const auto limit = static_cast<float>(gating.limit);
      const float a = std::min(gate, limit), b = std::clamp(up, -limit, limit);
      return a * apply(UnaryFn::sigmoid, static_cast<float>(gating.alpha) * a) * (b + 1);
    }
  }
  return gate;
}

using Parts = MlpParts<const Tensor*>;

TokenRows project(const Tensor& weight, const Tensor* bias, const TokenRows& x) {
  TokenRows y = project(weight, x);
  if (bias == nullptr) return y;
  for (int64_t t = 0; t < y.tokens; ++t)
    for (size_t c = 0; c < bias->data.size(); ++c) y.row(t)[c] += bias->data[c];
  return y;
}

// down · act(gate · x, up · x); biases that are absent are null.
TokenRows gated_mlp(const Gating& gating, const TokenRows& x, const Parts& weights,
                    const Parts& biases) {
  TokenRows inner = project(*weights.gate, biases.gate, x);
  const TokenRows up = project(*weights.up, biases.up, x);
  for (size_t i = 0; i < inner.data.size(); ++i)
    inner.data[i] = activate(gating, inner.data[i], up.data[i]);
  return project(*weights.down, biases.down, inner);
}

// Adds the output of an expert to the tokens that chose it; an infinite output of an expert that
// was not chosen must not become NaN. With `weigh` the output is multiplied by the routing weight.
void add_chosen(TokenRows& sum, const TokenRows& y, const TokenRows& routing, int64_t expert,
                bool weigh) {
  for (int64_t t = 0; t < sum.tokens; ++t) {
    const float weight = at(routing.row(t), expert);
    if (weight == 0) continue;
    for (size_t c = 0; c < static_cast<size_t>(sum.channels); ++c)
      sum.row(t)[c] += weigh ? weight * y.row(t)[c] : y.row(t)[c];
  }
}

TokenRows weighted(TokenRows x, const TokenRows& routing, int64_t expert) {
  for (int64_t t = 0; t < x.tokens; ++t)
    for (float& value : x.row(t)) value *= at(routing.row(t), expert);
  return x;
}

}  // namespace

Tensor eval(const GatedMlp& op, const Call& call) {
  const auto operands = gated_mlp_operands<const Tensor*>(call.operands);
  const TokenRows x = rows_of(*operands.x);
  TokenRows y = gated_mlp(op.gating, x, operands.weights, operands.biases);
  if (operands.shared_gate != nullptr) {
    const TokenRows gate = project(*operands.shared_gate, x);
    for (int64_t t = 0; t < y.tokens; ++t)
      for (float& value : y.row(t)) value *= apply(UnaryFn::sigmoid, gate.row(t)[0]);
  }
  return tensor_of(y, call.type());
}

Tensor eval(const SoftMoe& op, const Call& call) {
  const auto operands = soft_moe_operands<const Tensor*>(op, call.operands);
  const TokenRows x = rows_of(*operands.x), routing = rows_of(*operands.routing);
  TokenRows sum = zero_rows(x.tokens, x.channels);
  for (int64_t e = 0; e < op.experts; ++e) {
    Parts biases;
    if (!operands.biases.empty()) biases = at(operands.biases, e);
    const int64_t number = op.first_expert + e;
    const bool weigh_output = op.weight_on == RoutedWeight::output;
    const TokenRows y = gated_mlp(op.gating, weigh_output ? x : weighted(x, routing, number),
                                  at(operands.weights, e), biases);
    add_chosen(sum, y, routing, number, weigh_output);
  }
  return tensor_of(sum, call.type());
}

}  // namespace moec
