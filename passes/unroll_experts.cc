#include <algorithm>
#include <utility>
#include <vector>

#include "ir/base/at.h"
#include "ir/graph/composite_operands.h"
#include "ir/graph/rewriter.h"
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

// A shard whose experts are not consecutive has one soft_moe per run of experts and adds them one
// after the other. A chain continues over the runs, so that it adds the experts in the order of a
// single run: masked experts can be dropped without a change of rounding.
class Unroller {
 public:
  Unroller(const Shard& shard, SumForm sum)
      : shard_(shard), sum_(sum), users_(find_users(shard)), rewriter_(shard) {
    rewriter_.build().set_form(shard.form);
  }

  Shard run() {
    for (OpId id : op_ids(shard_)) {
      const Op& op = shard_.ops[id];
      if (std::holds_alternative<SoftMoe>(op.data)) {
        if (!continues(id)) unroll(id, op, {});
      } else if (is_add(op) && continues(producer(op.operands[1]))) {
        unroll(id, shard_.ops[producer(op.operands[1])], op.operands[0]);
      } else {
        rewriter_.copy(id);
      }
    }
    return rewriter_.finish();
  }

 private:
  static bool is_add(const Op& op) {
    const auto* binary = std::get_if<Binary>(&op.data);
    return binary && binary->fn == BinaryFn::add;
  }
  OpId producer(ValueId value) const { return shard_.values[value].producer; }
  bool is_experts(OpId id) const {
    return id.valid() && std::holds_alternative<SoftMoe>(shard_.ops[id].data);
  }

  // True if the op is a soft_moe whose only user adds it to an earlier run.
  bool continues(OpId id) const {
    if (sum_ != SumForm::chain || !is_experts(id)) return false;
    const ValueId result = shard_.ops[id].results[0];
    const std::vector<OpId>& users = users_[result];
    if (users.size() != 1) return false;
    const Op& user = shard_.ops[users.front()];
    if (!is_add(user) || user.operands[1] != result || is_output(result)) return false;
    const OpId earlier = producer(user.operands[0]);
    return is_experts(earlier) || (earlier.valid() && is_add(shard_.ops[earlier]) &&
                                   is_experts(producer(shard_.ops[earlier].operands[1])));
  }
  bool is_output(ValueId value) const {
    return std::any_of(shard_.outputs.begin(), shard_.outputs.end(),
                       [&](const Output& output) { return output.value == value; });
  }

  // Replaces the op by the sum of the value `start`, which may be invalid, and of the experts.
  void unroll(OpId id, const Op& experts, ValueId start) {
    const auto& moe = std::get<SoftMoe>(experts.data);
    Builder& b = rewriter_.build();
    const size_t known = b.shard().values.size();
    ValueId sum;
    {
      Builder::NameScope names(b, outer_scope(rewriter_, id));
      const std::vector<ValueId> list = rewriter_(experts.operands);
      const ExpertOperands operands = soft_moe_operands<ValueId>(moe, list);
      std::vector<ValueId> terms;
      if (start.valid()) terms.push_back(rewriter_(start));
      for (int64_t e = 0; e < moe.experts; ++e) terms.push_back(expert(b, moe, operands, e));
      if (!operands.biases.empty()) terms.push_back(down_biases(b, moe, operands));
      sum = sum_terms(b, std::move(terms), sum_);
    }
    const std::string& name = shard_.values[shard_.ops[id].results[0]].name;
    if (!name.empty() && sum.index >= known) b.rename(sum, name);
    rewriter_.replace(id, {sum});
  }

  const Shard& shard_;
  const SumForm sum_;
  const IdMap<ValueId, std::vector<OpId>> users_;
  Rewriter rewriter_;
};

}  // namespace

Result<Shard> unroll_experts(const Shard& shard, PassContext& context) {
  return Unroller(shard, context.options.target.sum).run();
}

}  // namespace moec
