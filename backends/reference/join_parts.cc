#include <algorithm>
#include <optional>
#include <set>

#include "backends/reference/program.h"

namespace moec {
namespace {

class PartJoiner {
 public:
  PartJoiner(Program& program, std::vector<RunStep>& steps)
      : program_(program), shard_(program.shard), steps_(steps), users_(find_users(shard_)) {
    for (const Output& output : shard_.outputs) is_output_[output.value] = 1;
  }

  void join() {
    for (RunStep& step : steps_)
      if (step.kind == StepKind::fused) join_sum(step);
    std::erase_if(steps_, [&](const RunStep& step) {
      return step.kind != StepKind::parts &&
             (joined_.contains(program_.gates.of_op[step.op]) || is_slice_[step.op]);
    });
  }

 private:
  void join_sum(RunStep& step) {
    const FusedOp& sum = program_.runs.fused[step.index];
    if (sum.kind != FusedKind::sum) return;
    JointParts joint{step.index, {}};
    for (const ValueId id : sum.operands) {
      if (!program_.runs.is_summed[id]) continue;
      auto part = part_of(program_.gates.of_value[id], id);
      if (part && (joint.parts.empty() || are_alike(joint.parts.front(), *part)))
        joint.parts.push_back(std::move(*part));
    }
    if (joint.parts.size() < 2) return;
    for (const JointParts::Part& part : joint.parts) take(part.gate, step.op);
    step = {step.op, StepKind::parts, static_cast<uint32_t>(program_.runs.parts.size())};
    program_.runs.parts.push_back(std::move(joint));
  }

  // The part of a gate; absent unless the sum alone needs it, and only by its result.
  std::optional<JointParts::Part> part_of(uint32_t gate, ValueId result) const {
    if (!program_.gates.is_of_one_token(shard_, gate) || !owns_slice(gate)) return {};
    JointParts::Part part{.gate = gate};
    for (const RunStep& step : steps_) {
      if (program_.gates.of_op[step.op] != gate) continue;
      part.steps.push_back(step);
      for (const ValueId id : results_of(program_, step)) {
        if (program_.gates.leaves[id] != 0 && id != result) return {};
        part.values.push_back(id);
      }
    }
    if (std::ranges::find(part.values, result) == part.values.end()) return {};
    if (const OpId slice = program_.gates.gates[gate].slice; slice.valid()) {
      part.values.push_back(program_.gates.gates[gate].weights);
      const Op& op = shard_.ops[slice];
      part.weights = op.operands.front();
      // The operand has size 1 along all other axes.
      part.index = static_cast<size_t>(std::get<Slice>(op.data).begin);
    }
    return part;
  }

  // True if no op outside of the part reads the slice that opens it.
  bool owns_slice(uint32_t number) const {
    const Gate& gate = program_.gates.gates[number];
    const auto& users = users_[gate.weights];
    return !gate.slice.valid() ||
           (!is_output_[gate.weights] && std::all_of(users.begin(), users.end(), [&](OpId user) {
             return program_.gates.of_op[user] == number;
           }));
  }

  static bool are_alike(const JointParts::Part& a, const JointParts::Part& b) {
    return std::ranges::equal(a.steps, b.steps, {}, &RunStep::kind, &RunStep::kind);
  }

  // The part runs in the place of the sum.
  void take(uint32_t number, OpId sum) {
    joined_.insert(number);
    const OpId slice = program_.gates.gates[number].slice;
    if (slice.valid()) is_slice_[slice] = 1;
    if (slice.valid()) keep_until(program_, sum, shard_.ops[slice].operands);
    for (const OpId id : op_ids(shard_))
      if (program_.gates.of_op[id] == number) keep_until(program_, sum, shard_.ops[id].operands);
    for (const ProductGroup& group : program_.runs.products)
      for (const WeightProduct& product : group)
        if (program_.gates.of_op[product.op] == number)
          keep_until(program_, sum, std::span(&product.token, 1));
  }

  Program& program_;
  const Shard& shard_;
  std::vector<RunStep>& steps_;
  IdMap<ValueId, std::vector<OpId>> users_;
  IdMap<ValueId, uint8_t> is_output_;
  std::set<uint32_t> joined_;  // gates
  IdMap<OpId, uint8_t> is_slice_;
};

bool has_paged_weights(const Program& program) {
  return std::ranges::any_of(program.paged.values,
                             [](const auto& weight) { return weight.has_value(); });
}

}  // namespace

// A pager need not have room for the weights of several parts.
void join_parts(Program& program, std::vector<RunStep>& steps) {
  if (!has_paged_weights(program)) PartJoiner(program, steps).join();
}

}  // namespace moec
