#include "frontends/jobs/calibrate/tapped_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "models/shards/build_shard.h"
#include "models/shards/weight_uses.h"

namespace moec {
namespace {

using Uses = std::map<std::string, WeightUse>;  // by tensor

class Taps {
 public:
  Taps(const Shard& shard, const Uses& uses) : shard_(shard), uses_(uses) {}

  void find(TappedShard& tapped) {
    for (const Op& op : shard_.ops) std::visit([&](const auto& data) { tap(data, op); }, op.data);
    tapped.inputs = std::move(taps_);
    tapped.experts = std::move(experts_);
  }

 private:
  template <class Other>
  void tap(const Other&, const Op&) {}

  void tap(const Linear&, const Op& op) {
    if (!is_part_of_sum(op.operands[0])) add(op.operands[1], name_of(op, 0));
  }

  // True if `value` is the output of only some experts of a layer that is cut into groups. A map
  // after the experts then reads a partial sum, which has other second moments than the complete
  // sum.
  bool is_part_of_sum(ValueId value) const {
    const auto* moe = shard_.producer_as<SoftMoe>(value);
    if (!moe) return false;
    const ValueId routing = shard_.ops[shard_.values[value].producer].operands[1];
    return moe->experts < channels_of(shard_.type(routing));
  }

  void tap(const GatedMlp& mlp, const Op& op) {
    const std::string x = name_of(op, 0);
    const size_t down = mlp.gating.matrices();
    for (size_t i = 1; i < down; ++i) add(op.operands[i], x);
    add(op.operands[down], shard_.label(op.results.front()) + ".down");
    // A shared expert may have a gate, which reads the block's input, too.
    if (const size_t gate = mlp.shared_gate_at(op.operands.size()); gate < op.operands.size())
      add(op.operands[gate], x);
  }

  void tap(const SoftMoe& moe, const Op& op) {
    for (int64_t e = 0; e < moe.experts; ++e) {
      const int64_t number = moe.first_expert + e;
      const size_t position = moe.weights_at(e), down = position + moe.gating.matrices() - 1;
      const std::string name = fmt::format("{}.{}", kAllExperts, number);
      for (size_t i = position; i < down; ++i)
        // Pools the inputs of gate and up, which are rows of the same hidden states. The inputs of
        // down differ by expert.
        add(op.operands[i], name, number).input.pool = kAllExperts;
      add(op.operands[down], name + ".down", number);
    }
  }

  // Returns the name of the matrix's input, derived from the result's label if the input has no
  // name.
  std::string name_of(const Op& op, size_t operand) const {
    const std::string& name = shard_.values[op.operands[operand]].name;
    return name.empty() ? shard_.label(op.results.front()) + ".input" : name;
  }

  TappedInput& add(ValueId matrix, const std::string& name, int64_t expert = -1) {
    TappedInput& tapped = input_of(matrix, name);
    if (const auto* weight = shard_.producer_as<Weight>(matrix))
      for (const WeightUse& use : uses_of(weight->view)) {
        // A tensor with all experts has no expert in its use, so the op's expert applies.
        const auto& [layer, stored, role] = use.tensor;
        const CalibratedMatrix one{role, stored < 0 ? expert : stored};
        auto& all = tapped.input.matrices;
        if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
        if (expert >= 0) experts_.push_back({matrix, one, stored});
      }
    return tapped;
  }

  // Returns the tensors of a matrix: all concatenated tensors, but only the first for an expert's
  // matrix.
  std::vector<WeightUse> uses_of(const WeightView& view) const {
    std::vector<WeightUse> found;
    for_each_tensor(view, [&](const TensorSource& tensor, const Type&) {
      const auto use = uses_.find(tensor.name);
      if (use == uses_.end()) return;
      const bool is_expert = use->second.group == WeightGroup::experts;
      if (found.empty() || !is_expert) found.push_back(use->second);
    });
    return found;
  }

  TappedInput& input_of(ValueId matrix, const std::string& name) {
    for (TappedInput& tapped : taps_)
      if (tapped.input.name == name) return tapped;
    taps_.push_back({{.name = name, .inputs = shard_.type(matrix).dims[1]}, shard_.label(matrix)});
    return taps_.back();
  }

  const Shard& shard_;
  const Uses& uses_;
  std::vector<TappedInput> taps_;
  std::vector<ExpertMatrix> experts_;
};

}  // namespace

Result<TappedShard> tap_shard(const Plan& plan, size_t index) {
  TappedShard tapped;
  MOEC_ASSIGN(tapped.body, build_shard(plan, index, plan.build.tokens.front()));
  const Uses uses = weight_uses(plan, index);
  Taps(tapped.body, uses).find(tapped);
  return tapped;
}

}  // namespace moec
