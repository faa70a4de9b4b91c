#include "passes/expert_math.h"
#include "passes/passes.h"
#include "passes/rewrite_each.h"

namespace moec {
namespace {

ValueId expert(Builder& b, const SoftMoe& moe, const std::vector<ValueId>& operands, int64_t e) {
  const int64_t number = moe.first_expert + e;
  Builder::NameScope scope(b, "experts." + std::to_string(number));
  const ValueId* weights = &operands[static_cast<size_t>(2 + 3 * e)];
  ValueId gate = b.linear(operands[0], weights[0], "gate");
  ValueId up = b.linear(operands[0], weights[1], "up");
  ValueId routing = b.slice(operands[1], kChannelAxis, number, 1, "routing");
  ValueId hidden = apply_routing(b, gated_product(b, moe.activation, gate, up), routing);
  return b.linear(hidden, weights[2], "out");
}

}  // namespace

Result<Shard> unroll_experts(const Shard& shard, PassContext& context) {
  auto lower = [&](Builder& b, const SoftMoe& moe, const std::vector<ValueId>& operands) {
    std::vector<ValueId> terms;
    for (int64_t e = 0; e < moe.experts; ++e) terms.push_back(expert(b, moe, operands, e));
    return std::vector<ValueId>{sum_terms(b, std::move(terms), context.options.target.sum)};
  };
  return rewrite_each<SoftMoe>(shard, shard.form, no_scope, lower);
}

}  // namespace moec
