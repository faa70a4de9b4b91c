#include <algorithm>
#include <array>
#include <optional>

#include "backends/reference/attention_core.h"
#include "backends/reference/program.h"
#include "backends/reference/rounding.h"
#include "backends/reference/tensor_pool.h"

namespace moec {
namespace {

// One run and its values.
class Run {
 public:
  Run(Program& program, const RunProbes& probes)
      : program_(program),
        shard_(program.shard),
        probes_(probes),
        units_(program),
        values_(program),
        open_(program.gates.gates.size()) {}

  Result<std::vector<Tensor>> operator()(const std::vector<const Tensor*>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      values_.define(shard_.inputs[i], *inputs[i]);
      see(shard_.inputs[i]);
    }
    const RunPlan& plan = probes_.values ? program_.runs.probed : program_.runs.plain;
    for (size_t next = 0; next < plan.steps.size();) {
      const RunStep& step = plan.steps[next++];
      if (step.after_closed != 0 && is_closed(step.op)) {
        next = step.after_closed;
        continue;
      }
      evaluate_step(step);
      if (probes_.values)
        for (ValueId id : shard_.ops[step.op].results) see(id);
      drop_used(plan, step);
      if (!units_.failure()) return fail(units_.failure().error());
    }
    std::vector<Tensor> outputs = values_.outputs();
    // After the outputs, which may be states.
    for (auto& [state, value] : writes_) program_.states[state] = std::move(value);
    return outputs;
  }

 private:
  bool is_ready(const Op& op) const {
    return !op.results.empty() && is_brought(program_, op.results.front());
  }

  void run(OpId id) {
    const Op& op = shard_.ops[id];
    if ((probes_.values && is_ready(op)) || is_early_[id]) return;
    if (const uint32_t gate = program_.gates.of_op[id]; gate != Gates::kNone)
      return run_gated(id, gate);
    if (ends_in_reshape(id)) return values_.put(op.results.front(), reshaped(op));
    if (reads_state(op.data))
      return values_.refer(op.results.front(), program_.states[*state_of(op.data)]);
    // Writes take effect after the run: a later read in the same run must see the old value.
    if (writes_state(op.data)) {
      writes_[*state_of(op.data)] = values_.whole(op.operands.front());
      return;
    }
    take_results(id);
  }

  // Computes an op, or zeros if a unit of its operands has no part in the run.
  void take_results(OpId id) {
    if (units_.bind(id, values_.own())) return evaluate(id);
    put_zeros(shard_.ops[id]);
  }

  void evaluate_step(const RunStep& step) {
    if (step.kind == StepKind::op) return run(step.op);
    if (step.kind == StepKind::parts) return evaluate_parts(program_.runs.parts[step.index]);
    if (leaves_out(step)) return;
    if (step.kind == StepKind::products) return multiply(program_.runs.products[step.index]);
    const FusedOp& fused = program_.runs.fused[step.index];
    values_.put(shard_.ops[step.op].results.front(), fused.kind == FusedKind::sum
                                                         ? sum_of_parts(fused)
                                                         : evaluate_fused(fused, step.op));
  }

  // True if the step is in a closed part, of whose values others may read zeros.
  bool leaves_out(const RunStep& step) {
    if (program_.gates.of_op[step.op] == Gates::kNone || !is_closed(step.op)) return false;
    for (const ValueId id : results_of(program_, step))
      if (program_.gates.leaves[id] && !program_.runs.is_summed[id])
        values_.put(id, make_zeros(shard_.type(id)));
    return true;
  }

  void multiply(std::span<const WeightProduct> all) {
    std::vector<TokenProduct> products;
    products.reserve(all.size());
    for (const WeightProduct& of : all) {
      values_.put(of.result, make_tensor(shard_.type(of.result)));
      if (!units_.bind(of.op, values_.own())) {
        std::ranges::fill(values_.own(of.result).data, 0.0f);
        continue;
      }
      const auto& stored = program_.stored[of.weight];
      const Factor weight = stored ? Factor{nullptr, &*stored, 0}
                                   : Factor{values_.at(of.weight).data.data(), nullptr, 0};
      products.push_back({weight, of.is_columns, values_.whole(of.token).data.data(), of.inner,
                          of.outputs, values_.own(of.result).data.data()});
    }
    program_.options.products->multiply_tokens(products);
    for (const WeightProduct& of : all)
      round_elements(values_.own(of.result), program_.options.precision);
  }

  void evaluate_parts(const JointParts& joint) {
    std::vector<const JointParts::Part*> open;
    for (const JointParts::Part& part : joint.parts)
      if (opens(part)) open.push_back(&part);
    for (size_t i = 0; i < joint.parts.front().steps.size(); ++i) {
      std::vector<WeightProduct> products;
      for (const JointParts::Part* part : open) {
        const RunStep& step = part->steps[i];
        if (step.kind != StepKind::products) {
          evaluate_step(step);
          continue;
        }
        const ProductGroup& group = program_.runs.products[step.index];
        products.insert(products.end(), group.begin(), group.end());
      }
      if (!products.empty()) multiply(products);
    }
    const FusedOp& sum = program_.runs.fused[joint.sum];
    values_.put(shard_.ops[sum.ops.back()].results.front(), sum_of_parts(sum));
    for (const JointParts::Part* part : open)
      for (const ValueId id : part->values) values_.drop(id);
  }

  // Opens or closes the gate of a joint part. Computes its slice only if it opens.
  bool opens(const JointParts::Part& part) {
    if (part.weights.valid() && values_.whole(part.weights).data[part.index] == 0.0f) {
      open_[part.gate].emplace();
      return false;
    }
    return !opened(program_.gates.gates[part.gate], part.gate).indices.empty();
  }

  Tensor evaluate_fused(const FusedOp& fused, OpId last) {
    std::array<const Tensor*, 3> operands{};
    const size_t count = fused.operands.size();
    for (size_t i = 0; i < count; ++i) operands.at(i) = &values_.whole(fused.operands[i]);
    return eval(fused, std::span(operands).first(count), program_.types[last].front(),
                *program_.options.products);
  }

  // Adds only the elements that gates selected.
  Tensor sum_of_parts(const FusedOp& sum) {
    Tensor result = make_zeros(program_.types[sum.ops.back()].front());
    for (size_t i = 0; i < sum.operands.size(); ++i) {
      const ValueId id = sum.operands[i];
      const OpenGate* open = sum.gates[i] != Gates::kNone ? &*open_[sum.gates[i]] : nullptr;
      if (!open || open->all)
        add_elements(values_.whole(id).data.data(), std::ssize(result.data), result.data.data());
      else if (!open->indices.empty())
        add_selected(values_.own(id), gated_axis(id, sum.gates[i]), *open, result);
    }
    return result;
  }

  // Computes an op for the indices that its gate selects. Inner values of the part have only the
  // elements at these indices. Values that the rest of the shard reads have all elements.
  void run_gated(OpId id, uint32_t number) {
    const Gate& gate = program_.gates.gates[number];
    OpenGate& open = opened(gate, number);
    const Op& op = shard_.ops[id];
    const ValueId result = op.results.front();
    const bool is_completed =
        program_.gates.leaves[result] != 0 && (probes_.values || !program_.runs.is_summed[result]);
    if (gate.core) {
      if (id == gate.core->op) values_.put(result, evaluate_core(*gate.core, open));
    } else if (open.all) {
      take_results(id);
    } else if (open.indices.empty()) {
      if (is_completed) put_zeros(op);
    } else if (has_selected(result, number)) {
      const CountedAxis axis = gated_axis(result, number);
      Tensor part = evaluate_part(id, number);
      values_.put(result, is_completed ? scatter_selected(part, shard_.type(result), axis, open)
                                       : std::move(part));
    }
    if (gate.last_op == id.index) open.gathered.clear();
  }

  // Caches of halves are widened row by row.
  Tensor evaluate_core(const AttentionCore& core, const OpenGate& open) {
    const CoreTensors tensors{&values_.whole(core.queries),    &values_.at(core.old_keys),
                              &values_.whole(core.new_keys),   &values_.at(core.old_values),
                              &values_.whole(core.new_values), &values_.whole(core.mask)};
    return eval_core(tensors, open, *program_.options.products, program_.types[core.op].front());
  }

  // Returns the selected indices of a gate. The first op of the part computes them. A gate that is
  // a slice may come later in the op list, so it is evaluated early and skipped at its turn.
  OpenGate& opened(const Gate& gate, uint32_t number) {
    if (open_[number]) return *open_[number];
    if (gate.slice.valid() && !values_.is_known(gate.weights)) {
      evaluate(gate.slice);
      is_early_[gate.slice] = 1;
    }
    return open_[number].emplace(open_gate(gate, values_.whole(gate.weights)));
  }

  bool is_closed(OpId id) {
    const uint32_t number = program_.gates.of_op[id];
    const OpenGate& open = opened(program_.gates.gates[number], number);
    return !open.all && open.indices.empty();
  }

  CountedAxis gated_axis(ValueId id, uint32_t number) const {
    return program_.gates.axis(id, number);
  }

  // Number of selected indices that a value has; absent if it does not count them.
  std::optional<int64_t> selected_count(ValueId id, uint32_t number) const {
    const CountedAxis axis = gated_axis(id, number);
    if (axis.axis < 0) return std::nullopt;
    return count_selected(*open_[number], axis, shard_.type(id).dims.at(axis.axis));
  }

  // False for a value without selected indices, such as the cache if tokens see new keys only. Such
  // a value has no tensor, because a size cannot be 0. A concatenation of keys omits the value.
  bool has_selected(ValueId id, uint32_t number) const { return selected_count(id, number) != 0; }

  Tensor evaluate_part(OpId op_id, uint32_t number) {
    const Op& op = shard_.ops[op_id];
    Type type = shard_.type(op.results.front());
    if (const auto count = selected_count(op.results.front(), number))
      type = with_size(std::move(type), gated_axis(op.results.front(), number).axis, *count);
    if (!units_.bind(op_id, values_.own())) return make_zeros(type);
    if (joins_whole_keys(op, number)) return join_keys(op, number, type);
    operands_.clear();
    for (const ValueId id : op.operands) {
      const ValueId from = program_.turned[id].valid() ? program_.turned[id] : id;
      if (has_selected(from, number)) operands_.push_back(part_of(from, number));
    }
    results_.clear();
    eval_op(program_, op_id, operands_, std::span(&type, 1), probes_, results_);
    return std::move(results_.front());
  }

  // True for a concatenation along the axis of the gate whose operands come from outside of the
  // part: a cache and new rows. It gathers them directly, so that no second copy exists.
  bool joins_whole_keys(const Op& op, uint32_t number) const {
    const auto* concat = std::get_if<Concat>(&op.data);
    return concat != nullptr && gated_axis(op.results.front(), number).axis == concat->axis &&
           std::none_of(op.operands.begin(), op.operands.end(),
                        [&](ValueId id) { return program_.gates.of_value[id] == number; });
  }

  Tensor join_keys(const Op& op, uint32_t number, const Type& type) const {
    std::vector<SelectedOperand> operands;
    for (const ValueId id : op.operands)
      operands.push_back({&values_.at(id), gated_axis(id, number)});
    return concat_selected(operands, type, *open_[number]);
  }

  // An operand's elements at the indices that an open gate selects, at least one. A value of the
  // same part has only these elements and is used directly. A value from outside is gathered once
  // and kept until the part ends.
  const Tensor* part_of(ValueId id, uint32_t number) {
    if (const Tensor* brought = brought_tensor(id)) return brought;
    if (program_.gates.of_value[id] == number && !program_.gates.leaves[id])
      return &values_.own(id);
    const CountedAxis axis = gated_axis(id, number);
    OpenGate& open = *open_[number];
    if (axis.axis < 0) return &values_.whole(id);
    const auto found = open.gathered.find(id);
    if (found != open.gathered.end()) return &found->second;
    return &open.gathered.emplace(id, gather_selected(values_.at(id), axis, open)).first->second;
  }

  // Null for a value that a run computes.
  const Tensor* brought_tensor(ValueId id) {
    const auto& paged = program_.paged.values[id];
    if (paged) return paged->as_tensor ? &values_.own(id) : &values_.at(id);
    return program_.is_fixed[id] ? &values_.at(id) : nullptr;
  }

  // True if the op reshapes a value of this run that has no later use.
  bool ends_in_reshape(OpId id) const {
    const Op& op = shard_.ops[id];
    if (!std::holds_alternative<Reshape>(op.data)) return false;
    const ValueId from = op.operands.front();
    return values_.is_own(from) && program_.last_use[from] == id.index;
  }

  // Reuses the elements, which are already rounded.
  Tensor reshaped(const Op& op) {
    Tensor& from = values_.own(op.operands.front());
    return {shard_.type(op.results.front()), std::move(from.data), std::move(from.halves)};
  }

  void evaluate(OpId op_id) {
    const Op& op = shard_.ops[op_id];
    operands_.clear();
    for (ValueId id : op.operands) {
      // A weight of a unit that the op needs as f32.
      const bool is_held = program_.runs.reads_weights[op_id] && program_.paged.values[id] &&
                           program_.paged.values[id]->as_tensor;
      const ValueId from = program_.turned[id].valid() ? program_.turned[id] : id;
      operands_.push_back(is_held ? &values_.own(id) : &values_.whole(from));
    }
    results_.clear();
    eval_op(program_, op_id, operands_, program_.types[op_id], probes_, results_);
    values_.take(op, results_);
  }

  void put_zeros(const Op& op) {
    for (ValueId id : op.results) values_.put(id, make_zeros(shard_.type(id)));
  }

  // Probes do not see values without complete elements: stored and paged weights, inner values of
  // gated parts, and halves.
  void see(ValueId id) const {
    const bool is_part = program_.gates.of_value[id] != Gates::kNone && !program_.gates.leaves[id];
    if (probes_.values && !program_.stored[id] && !program_.paged.values[id] && !is_part &&
        values_.at(id).halves.empty())
      probes_.values(shard_.label(id), values_.at(id));
  }

  // Frees the values without later uses.
  void drop_used(const RunPlan& plan, const RunStep& step) {
    units_.end(step.op);
    if (program_.releases_weights) release_weights(step);
    for (uint32_t i = step.first_dropped; i < step.end_dropped; ++i) values_.drop(plan.dropped[i]);
  }

  // Mapped pages count as memory of the process until they are released.
  void release_weights(const RunStep& step) const {
    if (step.kind == StepKind::parts)
      for (const JointParts::Part& part : program_.runs.parts[step.index].parts)
        for (const RunStep& inner : part.steps) release_weights(inner);
    if (step.kind == StepKind::products)
      for (const WeightProduct& product : program_.runs.products[step.index])
        release(product.weight);
    for (const ValueId id : shard_.ops[step.op].operands) release(id);
  }

  void release(ValueId id) const {
    if (program_.stored[id]) program_.stored[id]->release();
  }

  Program& program_;
  const Shard& shard_;
  const RunProbes& probes_;
  UnitsInUse units_;
  RunValues values_;
  std::map<std::string, Tensor> writes_;
  std::vector<std::optional<OpenGate>> open_;  // by gate, from the first op of its part on
  IdMap<OpId, uint8_t> is_early_;              // slices that a gate needed before their turn
  std::vector<const Tensor*> operands_;        // of the op that is evaluated
  std::vector<Tensor> results_;
};

}  // namespace

Result<std::vector<Tensor>> run_program(Program& program, const std::vector<const Tensor*>& inputs,
                                        const RunProbes& probes) {
  return Run(program, probes)(inputs);
}

}  // namespace moec
