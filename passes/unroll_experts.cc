#include "ir/base/at.h"
#include "ir/graph/composite_operands.h"
#include "passes/expert_math.h"
#include "passes/passes.h"
#include "passes/rewrite_each.h"

namespace moec {
namespace {

using ExpertOperands = SoftMoeOperands<ValueId>;

ValueId expert(Builder& b, const SoftMoe& moe, const ExpertOperands& operands, int64_t e) {
  const int64_t number = moe.first_expert + e;
  Builder::NameScope scope(b, "experts." + std::to_string(number));
  const MlpParts<ValueId> weights = at(operands.weights, e);
  MlpParts<ValueId> biases;
  if (!operands.biases.empty()) biases = at(operands.biases, e);
  const auto [gate, up] = gate_and_up(b, operands.x, weights, biases);
  ValueId routing = b.slice(operands.routing, kChannelAxis, number, 1, "routing");
  ValueId hidden = moe.weight_on == RoutedWeight::output
                       ? apply_routing(b, gated_product(b, moe.gating, gate, up), routing)
                       : product_of_routed(b, moe.gating, gate, up, routing);
  return b.linear(hidden, weights.down, "out");
}

// The weighted sum of the down biases of all experts. One projection computes it, because it does
// not depend on the experts' results.
ValueId down_biases(Builder& b, const SoftMoe& moe, const ExpertOperands& operands) {
  Builder::NameScope scope(b, "experts");
  std::vector<ValueId> biases;
  for (const MlpParts<ValueId>& expert : operands.biases) biases.push_back(expert.down);
  ValueId routing =
      b.slice(operands.routing, kChannelAxis, moe.first_expert, moe.experts, "routing");
  return routed_biases(b, routing, biases);
}

}  // namespace

Result<Shard> unroll_experts(const Shard& shard, PassContext& context) {
  auto lower = [&](Builder& b, const SoftMoe& moe, const std::vector<ValueId>& list) {
    const ExpertOperands operands = soft_moe_operands<ValueId>(moe, list);
    std::vector<ValueId> terms;
    for (int64_t e = 0; e < moe.experts; ++e) terms.push_back(expert(b, moe, operands, e));
    if (!operands.biases.empty()) terms.push_back(down_biases(b, moe, operands));
    return std::vector<ValueId>{sum_terms(b, std::move(terms), context.options.target.sum)};
  };
  return rewrite_each<SoftMoe>(shard, shard.form, outer_scope, lower);
}

}  // namespace moec
