#include <algorithm>
#include <array>

#include "backends/reference/attention_core.h"
#include "backends/reference/program.h"

namespace moec {
namespace {

void find_weight_readers(Program& program) {
  for (const OpId id : op_ids(program.shard))
    for (const ValueId operand : program.shard.ops[id].operands)
      if (program.stored[operand] || program.paged.values[operand])
        program.runs.reads_weights[id] = 1;
}

// A transpose is left out if products use its operand directly.
bool is_left_out(const Program& program, const Op& op) {
  return !op.results.empty() && program.turned[op.results.front()].valid();
}

bool is_ready(const Program& program, const Op& op) {
  return !op.results.empty() && is_brought(program, op.results.front());
}

// True if the core of attention computes what the op is needed for.
bool is_in_core(const Program& program, OpId id) {
  const uint32_t number = program.gates.of_op[id];
  if (number == Gates::kNone) return false;
  const auto& core = program.gates.gates[number].core;
  return core && core->op != id;
}

void keep_until(Program& program, OpId op, std::span<const ValueId> values) {
  for (const ValueId id : values) program.last_use[id] = std::max(program.last_use[id], op.index);
}

// A core reads its operands at the place of its last op, as does a fused op.
void find_cores(Program& program) {
  if (program.options.precision != Precision::f32) return;
  std::vector<Gate>& gates = program.gates.gates;
  for (uint32_t i = 0; i < gates.size(); ++i) {
    const auto core = gates[i].core = find_attention_core(program.shard, program.gates, i);
    if (!core) continue;
    const std::array operands = {core->queries,    core->old_keys,   core->new_keys,
                                 core->old_values, core->new_values, core->mask};
    keep_until(program, core->op, operands);
  }
}

void fuse(Program& program) {
  if (program.options.products == nullptr || program.options.precision != Precision::f32) return;
  IdMap<OpId, uint8_t> excluded(program.shard.ops.size());
  for (const OpId id : op_ids(program.shard)) {
    const bool is_gated = program.gates.of_op[id] != Gates::kNone;
    const bool is_single =
        is_gated || program.runs.reads_weights[id] || is_ready(program, program.shard.ops[id]);
    excluded[id] = is_single ? 1 : 0;
  }
  program.runs.fused = find_fused(program.shard, program.gates, excluded);
  const auto uses = count_uses(program.shard);
  for (const FusedOp& fused : program.runs.fused) {
    keep_until(program, fused.ops.back(), fused.operands);
    if (fused.kind != FusedKind::sum) continue;
    for (const ValueId id : fused.operands)
      program.runs.is_summed[id] = uses[id] == 1 && program.gates.is_leaf_of_tokens(id) ? 1 : 0;
  }
}

// Values of a run with the index of the last op that uses them, in the order of these indices.
// Outputs have no such op. A result without any use ends with its own op.
std::vector<std::pair<uint32_t, ValueId>> ends_of_values(const Program& program) {
  const Shard& shard = program.shard;
  std::vector<std::pair<uint32_t, ValueId>> ends;
  for (uint32_t i = 0; i < shard.values.size(); ++i) {
    const ValueId id{i};
    if (program.is_fixed[id]) continue;
    const OpId producer = shard.values[id].producer;
    const uint32_t made = producer.valid() ? producer.index : 0;
    const uint32_t end = std::max(program.last_use[id], made);
    if (end < shard.ops.size()) ends.emplace_back(end, id);
  }
  std::sort(ends.begin(), ends.end());
  return ends;
}

// Gives each step the values that end with it, or with an omitted op before it.
RunPlan plan_of(const Program& program, const std::vector<RunStep>& steps) {
  RunPlan plan{steps, {}};
  const auto ends = ends_of_values(program);
  auto next = ends.begin();
  for (RunStep& step : plan.steps) {
    step.first_dropped = static_cast<uint32_t>(plan.dropped.size());
    for (; next != ends.end() && next->first <= step.op.index; ++next)
      plan.dropped.push_back(next->second);
    step.end_dropped = static_cast<uint32_t>(plan.dropped.size());
  }
  return plan;
}

// True if anything outside of the part reads a result of the op, except for sums that skip closed
// parts.
bool is_read_outside(const Program& program, OpId op) {
  const std::vector<ValueId>& results = program.shard.ops[op].results;
  return std::any_of(results.begin(), results.end(), [&](ValueId id) {
    return program.gates.leaves[id] != 0 && !program.runs.is_summed[id];
  });
}

// Lets runs skip the steps of closed parts from `first` on. Returns the number of the step that
// follows them.
size_t skip_part(const Program& program, std::vector<RunStep>& steps, size_t first) {
  const uint32_t number = program.gates.of_op[steps[first].op];
  if (number == Gates::kNone || program.gates.gates[number].core) return first + 1;
  // A gate computes its slice before.
  const OpId slice = program.gates.gates[number].slice;
  bool is_needed = false;
  size_t next = first;
  for (; next < steps.size(); ++next) {
    const OpId op = steps[next].op;
    const bool is_part = program.gates.of_op[op] == number;
    if (!is_part && op != slice) break;
    is_needed |= is_part && is_read_outside(program, op);
  }
  if (!is_needed) steps[first].after_closed = static_cast<uint32_t>(next);
  return next;
}

std::vector<RunStep> each_op(const Program& program) {
  std::vector<RunStep> steps;
  for (const OpId id : op_ids(program.shard)) steps.push_back({id});
  return steps;
}

std::vector<RunStep> needed_steps(const Program& program) {
  IdMap<OpId, uint32_t> fused(program.shard.ops.size(), RunStep::kNone);
  IdMap<OpId, uint8_t> is_inner(program.shard.ops.size());
  for (uint32_t i = 0; i < program.runs.fused.size(); ++i) {
    for (const OpId id : program.runs.fused[i].ops) is_inner[id] = 1;
    const OpId last = program.runs.fused[i].ops.back();
    is_inner[last] = 0;
    fused[last] = i;
  }
  std::vector<RunStep> steps;
  for (const OpId id : op_ids(program.shard)) {
    const Op& op = program.shard.ops[id];
    const bool is_omitted = is_inner[id] || is_in_core(program, id) || is_ready(program, op) ||
                            is_left_out(program, op);
    if (!is_omitted) steps.push_back({id, fused[id]});
  }
  for (size_t step = 0; step < steps.size();) step = skip_part(program, steps, step);
  return steps;
}

}  // namespace

void plan_runs(Program& program) {
  find_weight_readers(program);
  find_cores(program);
  fuse(program);
  program.runs.plain = plan_of(program, needed_steps(program));
  program.runs.probed = plan_of(program, each_op(program));
}

}  // namespace moec
