#include <algorithm>

#include "ir/base/at.h"
#include "ir/graph/composite_operands.h"
#include "passes/expert_math.h"
#include "passes/passes.h"
#include "passes/rewrite_each.h"
#include "passes/token_layout.h"

namespace moec {
namespace {

// Experts [begin, begin + size) of one soft_moe op.
struct Bank {
  const SoftMoe& moe;
  const SoftMoeOperands<ValueId>& operands;
  int64_t begin, size;

  using Parts = MlpParts<ValueId>;
  std::vector<ValueId> weights(ValueId Parts::*part) const { return of(operands.weights, part); }
  bool has_biases() const { return !operands.biases.empty(); }
  std::vector<ValueId> biases(ValueId Parts::*part) const { return of(operands.biases, part); }

 private:
  std::vector<ValueId> of(const std::vector<Parts>& experts, ValueId Parts::*part) const {
    std::vector<ValueId> chosen;
    for (int64_t e = begin; e < begin + size; ++e) chosen.push_back(at(experts, e).*part);
    return chosen;
  }
};

// The input of the down projection, as a grid of experts × inner channels.
ValueId routed_product(Builder& b, const Bank& bank, const ChannelGrid& grid, ValueId gate,
                       ValueId up, ValueId weight) {
  const Gating& gating = bank.moe.gating;
  auto by_expert = [&](ValueId joined) {
    return grid.split(joined, bank.size, channels_of(b.type(joined)) / bank.size);
  };
  if (bank.moe.weight_on == RoutedWeight::output)
    return apply_routing(b, by_expert(gated_product(b, gating, gate, up)), weight);
  ValueId gates = gate.valid() ? by_expert(gate) : gate, ups = by_expert(up);
  return product_of_routed(b, gating, gates, ups, weight);
}

// One projection, named `name`, that computes the gates or the ups of all experts of a bank.
ValueId joined_projection(Builder& b, const Bank& bank, ValueId Bank::Parts::*part,
                          const std::string& name) {
  ValueId weight = b.concat(bank.weights(part), 0, name + ".weight"), bias;
  if (bank.has_biases()) bias = b.concat(bank.biases(part), 0, name + ".bias");
  return biased_linear(b, bank.operands.x, weight, bias, name);
}

// The weighted sum of a bank's experts, from three projections: one for all gates, one for all ups,
// and one for all downs, which sums the weighted hidden values over experts. Experts without gates
// need two projections.
ValueId bank_output(Builder& b, const Bank& bank) {
  ValueId x = bank.operands.x;
  ValueId gate;
  if (bank.moe.gating.has_gate()) gate = joined_projection(b, bank, &Bank::Parts::gate, "gates");
  ValueId up = joined_projection(b, bank, &Bank::Parts::up, "ups");
  ValueId downs = b.concat(bank.weights(&Bank::Parts::down), 1, "downs.weight");

  const ChannelGrid grid(b, x);
  ValueId routing = b.slice(bank.operands.routing, kChannelAxis, bank.moe.first_expert + bank.begin,
                            bank.size, "routing");
  ValueId routed = routed_product(b, bank, grid, gate, up, grid.split(routing, bank.size, 1));
  ValueId out = b.linear(grid.join(routed), downs, "out");
  return bank.has_biases() ? b.add(out, routed_biases(b, routing, bank.biases(&Bank::Parts::down)))
                           : out;
}

}  // namespace

Result<Shard> bank_experts(const Shard& shard, PassContext& context) {
  const PassOptions& options = context.options;
  const int64_t widest = options.target.limits.channels;
  const int64_t limit =
      widest == 0 ? options.bank_channel_limit : std::min(options.bank_channel_limit, widest);
  auto lower = [&](Builder& b, const SoftMoe& moe, const std::vector<ValueId>& list) {
    const SoftMoeOperands<ValueId> operands = soft_moe_operands<ValueId>(moe, list);
    const int64_t inner = b.type(operands.weights.front().up).dims[0];
    const int64_t most = std::max<int64_t>(1, limit / inner);
    const int64_t banks = (moe.experts + most - 1) / most;
    std::vector<ValueId> terms;
    for (int64_t i = 0, begin = 0; i < banks; ++i) {
      // Bank sizes differ by at most one expert, so that the last bank is not a small remainder.
      const int64_t size = (moe.experts - begin) / (banks - i);
      Builder::NameScope scope(b, banks == 1 ? "experts" : "experts.bank" + std::to_string(i));
      terms.push_back(bank_output(b, {moe, operands, begin, size}));
      begin += size;
    }
    return std::vector<ValueId>{sum_terms(b, std::move(terms), options.target.sum)};
  };
  return rewrite_each<SoftMoe>(shard, shard.form, outer_scope, lower);
}

}  // namespace moec
