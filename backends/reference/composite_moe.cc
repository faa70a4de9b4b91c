#include "backends/reference/eval.h"
#include "backends/reference/tokens.h"
#include "ir/scalar.h"

namespace moec {
namespace {

float activate(Activation activation, float x) {
  switch (activation) {
    case Activation::silu:
      return x * apply(UnaryFn::sigmoid, x);
  }
  return x;
}

// down · (act(gate · x) ∘ (up · x))
TokenRows gated_mlp(Activation activation, const TokenRows& x, const Tensor& gate, const Tensor& up,
                    const Tensor& down) {
  TokenRows inner = project(gate, x);
  const TokenRows linear = project(up, x);
  for (size_t i = 0; i < inner.data.size(); ++i)
    inner.data[i] = activate(activation, inner.data[i]) * linear.data[i];
  return project(down, inner);
}

// An expert that was not chosen contributes nothing, whatever its output is.
void add_weighted(TokenRows& sum, const TokenRows& y, const TokenRows& routing, int64_t expert) {
  for (int64_t t = 0; t < sum.tokens; ++t) {
    const float weight = routing.row(t)[static_cast<size_t>(expert)];
    if (weight == 0) continue;
    for (size_t c = 0; c < static_cast<size_t>(sum.channels); ++c)
      sum.row(t)[c] += weight * y.row(t)[c];
  }
}

}  // namespace

Tensor eval(const GatedMlp& op, const Call& call) {
  const TokenRows x = rows_of(call[0]);
  TokenRows y = gated_mlp(op.activation, x, call[1], call[2], call[3]);
  if (call.operands.size() == 5) {
    const TokenRows gate = project(call[4], x);
    for (int64_t t = 0; t < y.tokens; ++t)
      for (float& value : y.row(t)) value *= apply(UnaryFn::sigmoid, gate.row(t)[0]);
  }
  return tensor_of(y, call.type());
}

Tensor eval(const SoftMoe& op, const Call& call) {
  const TokenRows x = rows_of(call[0]), routing = rows_of(call[1]);
  TokenRows sum = zero_rows(x.tokens, x.channels);
  for (int64_t e = 0; e < op.experts; ++e) {
    const auto at = static_cast<size_t>(2 + 3 * e);
    const TokenRows y = gated_mlp(op.activation, x, call[at], call[at + 1], call[at + 2]);
    add_weighted(sum, y, routing, op.first_expert + e);
  }
  return tensor_of(sum, call.type());
}

}  // namespace moec
