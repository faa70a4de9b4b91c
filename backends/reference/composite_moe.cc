#include <algorithm>
#include <cmath>
#include <numbers>

#include "backends/reference/eval.h"
#include "backends/reference/tokens.h"
#include "ir/base/at.h"
#include "ir/graph/composite_operands.h"
#include "ir/graph/elementwise.h"

namespace moec {
namespace {

// `gate` is not used by relu2, which has no gate matrix; gated_mlp() then passes `up` for both.
float activate(const Gating& gating, float gate, float up) {
  switch (gating.activation) {
    case Activation::silu:
      return gate * apply(UnaryFn::sigmoid, gate) * up;
    case Activation::gelu_tanh: {
      // sqrt(2 / pi), written as sqrt(2) * (1 / sqrt(pi)).
      constexpr float kSlope = std::numbers::sqrt2_v<float> * std::numbers::inv_sqrtpi_v<float>;
      const float cubic = gate + 0.044715F * gate * gate * gate;
      return 0.5F * gate * (1 + std::tanh(kSlope * cubic)) * up;
    }
    case Activation::clamped_swiglu: {
      const auto limit = static_cast<float>(gating.limit);
      const float a = std::min(gate, limit), b = std::clamp(up, -limit, limit);
      return a * apply(UnaryFn::sigmoid, static_cast<float>(gating.alpha) * a) * (b + 1);
    }
    case Activation::relu2: {
      const float positive = std::max(up, 0.0F);
      return positive * positive;
    }
  }
  return gate;
}

using Parts = MlpParts<const Tensor*>;

TokenRows project(const Call& call, const Tensor& weight, const Tensor* bias, const TokenRows& x) {
  TokenRows y = project(call.products, weight, x);
  if (bias == nullptr) return y;
  for (int64_t t = 0; t < y.tokens; ++t)
    for (size_t c = 0; c < bias->data.size(); ++c) y.row(t)[c] += bias->data[c];
  return y;
}

// Reports the rows that the weight in this operand multiplies, for calibration. Without a probe it
// does nothing.
void tell(const Call& call, size_t operand, const TokenRows& x) {
  if (call.applied) call.applied(operand, x.channels, x.data);
}

struct MlpRows {
  TokenRows inner;   // act(gate · x, up · x)
  TokenRows output;  // down · inner
};

// Absent biases are null in `biases`. The weights are the call's operands starting at `position`.
MlpRows gated_mlp(const Call& call, size_t position, const Gating& gating, const TokenRows& x,
                  const Parts& biases) {
  const Parts weights = mlp_parts_at<const Tensor*>(call.operands, position, gating);
  // The last matrix is `down`. It multiplies the activations, all others multiply x.
  const size_t last = position + gating.matrices() - 1;
  for (size_t i = position; i < last; ++i) tell(call, i, x);
  TokenRows inner = project(call, *weights.up, biases.up, x);
  const TokenRows gate = gating.has_gate() ? project(call, *weights.gate, biases.gate, x) : inner;
  for (size_t i = 0; i < inner.data.size(); ++i)
    inner.data[i] = activate(gating, gate.data[i], inner.data[i]);
  tell(call, last, inner);
  TokenRows output = project(call, *weights.down, biases.down, inner);
  return {std::move(inner), std::move(output)};
}

// Tokens that chose an expert, and their routing weights.
struct Chosen {
  std::vector<int64_t> tokens;
  std::vector<float> weights;
};

// A weight of 0 means that the token did not choose the expert. NaN is not equal to 0, so it counts
// as chosen and stays visible in the output.
Chosen tokens_of_expert(const TokenRows& routing, int64_t expert) {
  Chosen chosen;
  for (int64_t t = 0; t < routing.tokens; ++t) {
    const float weight = at(routing.row(t), expert);
    if (weight == 0) continue;
    chosen.tokens.push_back(t);
    chosen.weights.push_back(weight);
  }
  return chosen;
}

// Returns the rows of x for the chosen tokens, multiplied by their routing weights if `weigh` is
// set.
TokenRows rows_of_tokens(const TokenRows& x, const Chosen& chosen, bool weigh) {
  TokenRows rows{std::ssize(chosen.tokens), x.channels, {}};
  for (size_t i = 0; i < chosen.tokens.size(); ++i)
    for (const float value : x.row(chosen.tokens[i]))
      rows.data.push_back(weigh ? value * chosen.weights[i] : value);
  return rows;
}

// Adds the output of an expert to the tokens that chose it, multiplied by their routing weights if
// `weigh` is set.
void add_chosen(TokenRows& sum, const TokenRows& y, const Chosen& chosen, bool weigh) {
  for (int64_t i = 0; i < y.tokens; ++i) {
    const std::span<const float> from = y.row(i);
    const std::span<float> to = sum.row(at(chosen.tokens, i));
    const float weight = weigh ? at(chosen.weights, i) : 1;
    for (size_t c = 0; c < from.size(); ++c) to[c] += weight * from[c];
  }
}

}  // namespace

Tensor eval(const GatedMlp& op, const Call& call) {
  const auto operands = gated_mlp_operands<const Tensor*>(op, call.operands);
  const TokenRows x = rows_of(*operands.x);
  TokenRows y = gated_mlp(call, 1, op.gating, x, operands.biases).output;
  if (operands.shared_gate != nullptr) {
    tell(call, op.shared_gate_at(call.operands.size()), x);
    const TokenRows gate = project(call.products, *operands.shared_gate, x);
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
    const Chosen chosen = tokens_of_expert(routing, number);
    // An expert without tokens adds exactly 0, even if its weights are not finite (OPS.md).
    if (chosen.tokens.empty()) continue;
    const bool weigh_output = op.weight_on == RoutedWeight::output;
    const TokenRows rows = rows_of_tokens(x, chosen, !weigh_output);
    const MlpRows y = gated_mlp(call, op.weights_at(e), op.gating, rows, biases);
    if (call.expert)
      call.expert({number, chosen.tokens, chosen.weights, rows.data, y.inner.data, y.output.data,
                   op.weight_on});
    add_chosen(sum, y.output, chosen, weigh_output);
  }
  return tensor_of(sum, call.type());
}

namespace {

// Adds row `expert` of the biases to each token; a null bias adds nothing.
void add_bias(TokenRows& rows, const Tensor* bias, int64_t expert) {
  if (bias == nullptr) return;
  for (int64_t t = 0; t < rows.tokens; ++t)
    for (int64_t c = 0; c < rows.channels; ++c)
      at(rows.row(t), c) += at(bias->data, expert * rows.channels + c);
}

// The activations of pairs of channels: a gate and its up.
TokenRows activate_pairs(const Gating& gating, const TokenRows& pairs) {
  TokenRows inner = zero_rows(pairs.tokens, pairs.channels / 2);
  for (size_t i = 0; i < inner.data.size(); ++i)
    inner.data[i] = activate(gating, pairs.data[2 * i], pairs.data[2 * i + 1]);
  return inner;
}

}  // namespace

Tensor eval(const Moe& op, const Call& call) {
  constexpr size_t kGateUp = 2, kDown = 3;
  const auto operands = moe_operands<const Tensor*>(call.operands);
  const TokenRows x = rows_of(*operands.x), routing = rows_of(*operands.routing);
  const int64_t inner = operands.gate_up->type.dims[1];
  TokenRows sum = zero_rows(x.tokens, x.channels);
  for (int64_t e = 0; e < routing.channels; ++e) {
    const Chosen chosen = tokens_of_expert(routing, e);
    if (chosen.tokens.empty()) continue;
    const TokenRows rows = rows_of_tokens(x, chosen, false);
    TokenRows pairs = project(call, {kGateUp, e * inner, inner}, rows);
    add_bias(pairs, operands.gate_up_bias, e);
    const TokenRows active = activate_pairs(op.gating, pairs);
    TokenRows y = project(call, {kDown, e * x.channels, x.channels}, active);
    add_bias(y, operands.down_bias, e);
    add_chosen(sum, y, chosen, true);
  }
  return tensor_of(sum, call.type());
}

}  // namespace moec
