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

// Ops that a run may fuse: fused ops read whole tensors in memory.
bool may_fuse(const Program& program, OpId id) {
  const uint32_t gate = program.gates.of_op[id];
  const bool is_divided =
      gate != Gates::kNone && !program.gates.is_of_one_token(program.shard, gate);
  return !is_divided && !program.runs.reads_weights[id] &&
         !is_ready(program, program.shard.ops[id]);
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
  for (const OpId id : op_ids(program.shard)) excluded[id] = may_fuse(program, id) ? 0 : 1;
  program.runs.fused = find_fused(program.shard, program.gates, excluded);
  const auto uses = count_uses(program.shard);
  for (FusedOp& fused : program.runs.fused) {
    keep_until(program, fused.ops.back(), fused.operands);
    if (fused.kind != FusedKind::sum) continue;
    for (const ValueId id : fused.operands) {
      const bool is_summed = uses[id] == 1 && program.gates.is_leaf_of_tokens(id);
      program.runs.is_summed[id] = is_summed ? 1 : 0;
      fused.gates.push_back(is_summed ? program.gates.of_value[id] : Gates::kNone);
    }
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

// The values of joint parts end with their step.
IdMap<ValueId, uint8_t> values_of_parts(const Program& program) {
  IdMap<ValueId, uint8_t> values(program.shard.values.size());
  for (const JointParts& joint : program.runs.parts)
    for (const JointParts::Part& part : joint.parts)
      for (const ValueId id : part.values) values[id] = 1;
  return values;
}

// Gives each step the values that end with it, or with an omitted op before it.
RunPlan plan_of(const Program& program, std::vector<RunStep> steps,
                const IdMap<ValueId, uint8_t>& excluded) {
  RunPlan plan{std::move(steps), {}};
  const auto ends = ends_of_values(program);
  auto next = ends.begin();
  for (RunStep& step : plan.steps) {
    step.first_dropped = static_cast<uint32_t>(plan.dropped.size());
    for (; next != ends.end() && next->first <= step.op.index; ++next)
      if (!excluded[next->second]) plan.dropped.push_back(next->second);
    step.end_dropped = static_cast<uint32_t>(plan.dropped.size());
  }
  return plan;
}

// True if anything outside of the part reads a result of the step, except for sums that skip closed
// parts.
bool is_read_outside(const Program& program, const RunStep& step) {
  const std::vector<ValueId> results = results_of(program, step);
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
    is_needed |= is_part && is_read_outside(program, steps[next]);
  }
  if (!is_needed) steps[first].after_closed = static_cast<uint32_t>(next);
  return next;
}

std::vector<RunStep> each_op(const Program& program) {
  std::vector<RunStep> steps;
  for (const OpId id : op_ids(program.shard)) steps.push_back({id});
  return steps;
}

// Finds the products of a step of one token. Returns the reshapes that they make unnecessary.
IdMap<OpId, uint8_t> find_products(Program& program) {
  if (program.options.products == nullptr) return IdMap<OpId, uint8_t>();
  WeightProducts found = find_weight_products(program);
  for (const ProductGroup& group : found.groups)
    for (const WeightProduct& product : group)
      keep_until(program, product.op, std::span(&product.token, 1));
  program.runs.products = std::move(found.groups);
  return std::move(found.is_folded);
}

// The steps that stand for several ops, by the op in whose place they run. Omits the other ops.
std::vector<RunStep> needed_steps(const Program& program, IdMap<OpId, uint8_t> is_omitted) {
  IdMap<OpId, RunStep> step_of(program.shard.ops.size());
  for (uint32_t i = 0; i < program.runs.fused.size(); ++i) {
    const std::vector<OpId>& ops = program.runs.fused[i].ops;
    for (const OpId id : ops) is_omitted[id] = id != ops.back() ? 1 : 0;
    step_of[ops.back()] = {ops.back(), StepKind::fused, i};
  }
  for (uint32_t i = 0; i < program.runs.products.size(); ++i) {
    const ProductGroup& group = program.runs.products[i];
    for (const WeightProduct& product : group) is_omitted[product.op] = 1;
    is_omitted[group.front().op] = 0;
    step_of[group.front().op] = {group.front().op, StepKind::products, i};
  }
  std::vector<RunStep> steps;
  for (const OpId id : op_ids(program.shard)) {
    const Op& op = program.shard.ops[id];
    if (is_omitted[id] || is_in_core(program, id) || is_ready(program, op) ||
        is_left_out(program, op))
      continue;
    steps.push_back(step_of[id].op.valid() ? step_of[id] : RunStep{id});
  }
  return steps;
}

}  // namespace

void keep_until(Program& program, OpId op, std::span<const ValueId> values) {
  for (const ValueId id : values) program.last_use[id] = std::max(program.last_use[id], op.index);
}

std::vector<ValueId> results_of(const Program& program, const RunStep& step) {
  if (step.kind != StepKind::products) return program.shard.ops[step.op].results;
  std::vector<ValueId> results;
  for (const WeightProduct& product : program.runs.products[step.index])
    results.push_back(product.result);
  return results;
}

void plan_runs(Program& program) {
  find_weight_readers(program);
  find_cores(program);
  fuse(program);
  std::vector<RunStep> steps = needed_steps(program, find_products(program));
  join_parts(program, steps);
  for (size_t step = 0; step < steps.size();) step = skip_part(program, steps, step);
  program.runs.plain = plan_of(program, std::move(steps), values_of_parts(program));
  program.runs.probed = plan_of(program, each_op(program), IdMap<ValueId, uint8_t>());
}

}  // namespace moec
