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
        own_(shard_.values.size()),
        at_(shard_.values.size()) {
    for (uint32_t i = 0; i < shard_.values.size(); ++i) {
      const bool has_place = program.is_fixed[ValueId{i}] || program.paged.values[ValueId{i}];
      if (has_place) at_[ValueId{i}] = &program.fixed[ValueId{i}];
    }
  }

  Result<std::vector<Tensor>> operator()(const std::vector<const Tensor*>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) define(shard_.inputs[i], *inputs[i]);
    const RunPlan& plan = probes_.values ? program_.runs.probed : program_.runs.plain;
    for (size_t next = 0; next < plan.steps.size();) {
      const RunStep& step = plan.steps[next++];
      if (step.after_closed != 0 && is_closed(step.op)) {
        next = step.after_closed;
        continue;
      }
      if (step.fused != RunStep::kNone)
        put(shard_.ops[step.op].results.front(), evaluate_fused(step));
      else
        run(step.op);
      if (probes_.values)
        for (ValueId id : shard_.ops[step.op].results) see(id);
      drop_used(plan, step);
      if (!units_.failure()) return fail(units_.failure().error());
    }
    std::vector<Tensor> outputs;
    for (const Output& output : shard_.outputs) outputs.push_back(output_of(output.value));
    // An output is not a pointer, because at_ may point to a state that is replaced here.
    for (auto& [state, value] : writes_) program_.states[state] = std::move(value);
    return outputs;
  }

 private:
  // Uses an input in place unless it has another type or must be rounded.
  void define(ValueId id, const Tensor& input) {
    const Type& type = shard_.type(id);
    at_[id] = &input;
    // Rounding to binary16 does not change halves.
    const bool rounds = rounds_elements(type.dtype, program_.options.precision) &&
                        (input.halves.empty() || type.dtype == DType::bf16);
    if (input.type != type || rounds) put(id, {type, input.data, input.halves});
    if (rounds) {
      own_[id] = widened(own_[id]);
      round_elements(own_[id], program_.options.precision);
    }
    see(id);
  }

  // The value with all elements as f32. Widens halves, which later ops of the run then reuse.
  const Tensor* whole(ValueId id) {
    if (!at_[id]->halves.empty()) put(id, widened(*at_[id]));
    return at_[id];
  }

  // Moves a value that the run computed, unless another output has the same value.
  Tensor output_of(ValueId id) {
    const Tensor* value = whole(id);
    const auto outputs = std::count_if(shard_.outputs.begin(), shard_.outputs.end(),
                                       [&](const Output& output) { return output.value == id; });
    if (value != &own_[id] || outputs > 1) return *value;
    return std::move(own_[id]);
  }

  bool is_ready(const Op& op) const {
    return !op.results.empty() && is_brought(program_, op.results.front());
  }

  void run(OpId id) {
    const Op& op = shard_.ops[id];
    if ((probes_.values && is_ready(op)) || is_early_[id]) return;
    if (const uint32_t gate = program_.gates.of_op[id]; gate != Gates::kNone)
      return run_gated(id, gate);
    if (ends_in_reshape(id)) return put(op.results.front(), reshaped(op));
    if (reads_state(op.data)) {
      at_[op.results.front()] = &program_.states[*state_of(op.data)];
      return;
    }
    // Writes take effect after the run: a later read in the same run must see the old value.
    if (writes_state(op.data)) {
      writes_[*state_of(op.data)] = *whole(op.operands.front());
      return;
    }
    take(op, units_.bind(id, own_) ? evaluate(id) : zeros(op));
  }

  Tensor evaluate_fused(const RunStep& step) {
    const FusedOp& fused = program_.runs.fused[step.fused];
    if (fused.kind == FusedKind::sum) return sum_of_parts(fused);
    std::array<const Tensor*, 3> operands{};
    const size_t count = fused.operands.size();
    for (size_t i = 0; i < count; ++i) operands.at(i) = whole(fused.operands[i]);
    return eval(fused, std::span(operands).first(count), program_.types[step.op].front(),
                *program_.options.products);
  }

  // Adds only the elements that gates selected.
  Tensor sum_of_parts(const FusedOp& sum) {
    Tensor result = make_zeros(program_.types[sum.ops.back()].front());
    for (const ValueId id : sum.operands) {
      const uint32_t number = program_.gates.of_value[id];
      const OpenGate* open = program_.runs.is_summed[id] ? &open_.at(number) : nullptr;
      if (!open || open->all)
        add_elements(whole(id)->data.data(), std::ssize(result.data), result.data.data());
      else if (!open->indices.empty())
        add_selected(own_[id], gated_axis(id, number), *open, result);
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
      if (id == gate.core->op) put(result, evaluate_core(*gate.core, open));
    } else if (open.all) {
      take(op, units_.bind(id, own_) ? evaluate(id) : zeros(op));
    } else if (open.indices.empty()) {
      if (is_completed) take(op, zeros(op));
    } else if (has_selected(result, number)) {
      const CountedAxis axis = gated_axis(result, number);
      Tensor part = evaluate_part(id, number);
      put(result,
          is_completed ? scatter_selected(part, shard_.type(result), axis, open) : std::move(part));
    }
    if (gate.last_op == id.index) open.gathered.clear();
  }

  // Caches of halves are widened row by row.
  Tensor evaluate_core(const AttentionCore& core, const OpenGate& open) {
    const CoreTensors tensors{whole(core.queries),  at_[core.old_keys],     whole(core.new_keys),
                              at_[core.old_values], whole(core.new_values), whole(core.mask)};
    return eval_core(tensors, open, *program_.options.products, program_.types[core.op].front());
  }

  // Returns the selected indices of a gate. The first op of the part computes them. A gate that is
  // a slice may come later in the op list, so it is evaluated early and skipped at its turn.
  OpenGate& opened(const Gate& gate, uint32_t number) {
    if (const auto found = open_.find(number); found != open_.end()) return found->second;
    if (gate.slice.valid() && !at_[gate.weights]) {
      const Op& slice = shard_.ops[gate.slice];
      take(slice, evaluate(gate.slice));
      is_early_[gate.slice] = 1;
    }
    return open_.emplace(number, open_gate(gate, *whole(gate.weights))).first->second;
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
    return count_selected(open_.at(number), axis, shard_.type(id).dims.at(axis.axis));
  }

  // False for a value without selected indices, such as the cache if tokens see new keys only. Such
  // a value has no tensor, because a size cannot be 0. A concatenation of keys omits the value.
  bool has_selected(ValueId id, uint32_t number) const { return selected_count(id, number) != 0; }

  Tensor evaluate_part(OpId op_id, uint32_t number) {
    const Op& op = shard_.ops[op_id];
    Type type = shard_.type(op.results.front());
    if (const auto count = selected_count(op.results.front(), number))
      type = with_size(std::move(type), gated_axis(op.results.front(), number).axis, *count);
    if (!units_.bind(op_id, own_)) return make_zeros(type);
    if (joins_whole_keys(op, number)) return join_keys(op, number, type);
    std::vector<const Tensor*> operands;
    for (const ValueId id : op.operands) {
      const ValueId from = program_.turned[id].valid() ? program_.turned[id] : id;
      if (has_selected(from, number)) operands.push_back(part_of(from, number));
    }
    return std::move(
        eval_op(program_, op_id, std::move(operands), std::span(&type, 1), probes_).front());
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
    for (const ValueId id : op.operands) operands.push_back({at_[id], gated_axis(id, number)});
    return concat_selected(operands, type, open_.at(number));
  }

  // An operand's elements at the indices that an open gate selects, at least one. A value of the
  // same part has only these elements and is used directly. A value from outside is gathered once
  // and kept until the part ends.
  const Tensor* part_of(ValueId id, uint32_t number) {
    if (const Tensor* brought = brought_tensor(id)) return brought;
    if (program_.gates.of_value[id] == number && !program_.gates.leaves[id]) return &own_[id];
    const CountedAxis axis = gated_axis(id, number);
    OpenGate& open = open_.at(number);
    if (axis.axis < 0) return whole(id);
    const auto found = open.gathered.find(id);
    if (found != open.gathered.end()) return &found->second;
    return &open.gathered.emplace(id, gather_selected(*at_[id], axis, open)).first->second;
  }

  // Null for a value that a run computes.
  const Tensor* brought_tensor(ValueId id) const {
    const auto& paged = program_.paged.values[id];
    if (paged) return paged->as_tensor ? &own_[id] : at_[id];
    return program_.is_fixed[id] ? at_[id] : nullptr;
  }

  // True if the op reshapes a value of this run that has no later use.
  bool ends_in_reshape(OpId id) const {
    const Op& op = shard_.ops[id];
    if (!std::holds_alternative<Reshape>(op.data)) return false;
    const ValueId from = op.operands.front();
    return at_[from] == &own_[from] && program_.last_use[from] == id.index;
  }

  // Reuses the elements, which are already rounded.
  Tensor reshaped(const Op& op) {
    Tensor& from = own_[op.operands.front()];
    return {shard_.type(op.results.front()), std::move(from.data), std::move(from.halves)};
  }

  std::vector<Tensor> evaluate(OpId op_id) {
    const Op& op = shard_.ops[op_id];
    std::vector<const Tensor*> operands;
    operands.reserve(op.operands.size());
    for (ValueId id : op.operands) {
      // A weight of a unit that the op needs as f32.
      const bool is_held = program_.runs.reads_weights[op_id] && program_.paged.values[id] &&
                           program_.paged.values[id]->as_tensor;
      const ValueId from = program_.turned[id].valid() ? program_.turned[id] : id;
      operands.push_back(is_held ? &own_[id] : whole(from));
    }
    return eval_op(program_, op_id, std::move(operands), program_.types[op_id], probes_);
  }

  // Results of products with a weight that has no part in the run.
  std::vector<Tensor> zeros(const Op& op) const {
    std::vector<Tensor> results;
    for (ValueId id : op.results) results.push_back(make_zeros(shard_.type(id)));
    return results;
  }

  void put(ValueId id, Tensor value) {
    own_[id] = std::move(value);
    at_[id] = &own_[id];
  }

  void take(const Op& op, std::vector<Tensor> results) {
    for (size_t i = 0; i < op.results.size(); ++i) put(op.results[i], std::move(results[i]));
  }

  // Probes do not see values without complete elements: stored and paged weights, inner values of
  // gated parts, and halves.
  void see(ValueId id) const {
    const bool is_part = program_.gates.of_value[id] != Gates::kNone && !program_.gates.leaves[id];
    if (probes_.values && !program_.stored[id] && !program_.paged.values[id] && !is_part &&
        at_[id]->halves.empty())
      probes_.values(shard_.label(id), *at_[id]);
  }

  // Frees the values without later uses.
  void drop_used(const RunPlan& plan, const RunStep& step) {
    units_.end(step.op);
    // Mapped pages count as memory of the process until they are released.
    if (program_.releases_weights)
      for (ValueId id : shard_.ops[step.op].operands)
        if (program_.stored[id]) program_.stored[id]->release();
    for (uint32_t i = step.first_dropped; i < step.end_dropped; ++i)
      recycle(std::move(own_[plan.dropped[i]]));
  }

  Program& program_;
  const Shard& shard_;
  const RunProbes& probes_;
  UnitsInUse units_;
  IdMap<ValueId, Tensor> own_;
  // Points to a fixed value, a state, an input, or an element of own_.
  IdMap<ValueId, const Tensor*> at_;
  std::map<std::string, Tensor> writes_;
  std::map<uint32_t, OpenGate> open_;  // by gate, from the first op of its part on
  IdMap<OpId, uint8_t> is_early_;      // slices that a gate needed before their turn
};

}  // namespace

Result<std::vector<Tensor>> run_program(Program& program, const std::vector<const Tensor*>& inputs,
                                        const RunProbes& probes) {
  return Run(program, probes)(inputs);
}

}  // namespace moec
