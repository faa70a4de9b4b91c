#include "passes/expert_math.h"
#include "passes/passes.h"
#include "passes/rewrite_each.h"

namespace moec {
namespace {

ValueId expert(Builder& b, const SoftMoe& moe, const std::vector<ValueId>& operands, int64_t e) {
  const int64_t number = moe.first_expert + e;
  Builder::NameScope scope(b, "experts." + std::to_string(number));
  const ValueId* weights = &operands[SoftMoe::weights_at(e)];
  ValueId gate_bias, up_bias;
  if (moe.has_biases(operands.size())) {
    gate_bias = operands[moe.biases_at(e)];
    up_bias = operands[moe.biases_at(e) + 1];
  }
  ValueId gate = biased_linear(b, operands[0], weights[0], gate_bias, "gate");
  ValueId up = biased_linear(b, operands[0], weights[1], up_bias, "up");
  ValueId routing = b.slice(operands[1], kChannelAxis, number, 1, "routing");
  ValueId hidden = moe.weight_on == RoutedWeight::output
                       ? apply_routing(b, gated_product(b, moe.gating, gate, up), routing)
                       : product_of_routed(b, moe.gating, gate, up, routing);
  return b.linear(hidden, weights[2], "out");
}

// The weighted sum of the down biases of all experts. It needs no expert's result, so one
// projection makes it for all.
ValueId down_biases(Builder& b, const SoftMoe& moe, const std::vector<ValueId>& operands) {
  Builder::NameScope scope(b, "experts");
  std::vector<ValueId> biases;
  for (int64_t e = 0; e < moe.experts; ++e) biases.push_back(operands[moe.biases_at(e) + 2]);
  ValueId routing = b.slice(operands[1], kChannelAxis, moe.first_expert, moe.experts, "routing");
  return routed_biases(b, routing, biases);
}

}  // namespace

Result<Shard> unroll_experts(const Shard& shard, PassContext& context) {
  auto lower = [&](Builder& b, const SoftMoe& moe, const std::vector<ValueId>& operands) {
    std::vector<ValueId> terms;
    for (int64_t e = 0; e < moe.experts; ++e) terms.push_back(expert(b, moe, operands, e));
    if (moe.has_biases(operands.size())) terms.push_back(down_biases(b, moe, operands));
    return std::vector<ValueId>{sum_terms(b, std::move(terms), context.options.target.sum)};
  };
  return rewrite_each<SoftMoe>(shard, shard.form, outer_scope, lower);
}

}  // namespace moec
