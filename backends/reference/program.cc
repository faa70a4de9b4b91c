#include "backends/reference/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/reference/rounding.h"
#include "backends/weights/encode/weight_encoder.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

std::vector<Tensor> as_list(Tensor tensor) {
  std::vector<Tensor> list;
  list.push_back(std::move(tensor));
  return list;
}
std::vector<Tensor> as_list(std::vector<Tensor> tensors) { return tensors; }

// The ops that load_program() and run_program() give their values, which are no function of
// operands.
std::vector<Tensor> eval_one(const OneOf<Weight, StateRead, StateWrite> auto& op, const Call&) {
  MOEC_CHECK(false, "{} has no definition by values alone", mnemonic(op));
  return {};
}

// An op without eval() in eval.h does not compile.
template <class OpT>
std::vector<Tensor> eval_one(const OpT& op, const Call& call) {
  return as_list(eval(op, call));
}

// An op without operands is fixed unless it reads a state; inputs have no op at all.
bool is_fixed_op(const Program& program, const Op& op) {
  if (std::holds_alternative<StateRead>(op.data)) return false;
  return std::all_of(op.operands.begin(), op.operands.end(),
                     [&](ValueId id) { return program.is_fixed[id] != 0; });
}

void find_fixed_values(Program& program) {
  for (const Op& op : program.shard.ops)
    for (ValueId id : op.results) program.is_fixed[id] = is_fixed_op(program, op) ? 1 : 0;
}

void find_last_uses(Program& program) {
  for (OpId op : op_ids(program.shard))
    for (ValueId id : program.shard.ops[op].operands) program.last_use[id] = op.index;
  for (const Output& output : program.shard.outputs)
    program.last_use[output.value] = static_cast<uint32_t>(program.shard.ops.size());
}

// Fixed values stay, of the others one is looked at: a bound that refuses absurd sizes before
// anything is allocated, not an exact account.
Status check_memory(const Program& program) {
  const Shard& shard = program.shard;
  uint64_t fixed = 0;
  for (uint32_t i = 0; i < shard.values.size(); ++i) {
    const ValueId id{i};
    const uint64_t bytes = static_cast<uint64_t>(shard.type(id).elements()) * sizeof(float);
    if (program.is_fixed[id]) fixed += bytes;
    if (std::max(fixed, fixed + bytes) > program.options.memory_limit)
      return fail("reference.too_large",
                  fmt::format("running the shard takes more than the limit of {} bytes",
                              program.options.memory_limit),
                  "split the shard, or raise the limit",
                  {.shard = shard.name, .op = shard.label(id)});
  }
  return {};
}

// The values that a file with the encoded weight gives back.
Result<std::vector<float>> read_encoded(const Weight& op, const Type& type,
                                        const WeightReader& weights) {
  std::vector<std::byte> values;
  StreamReport report;
  MOEC_TRY(weights.stream(
      op.view, kDefaultTileBytes,
      [&](std::span<const std::byte> tile) -> Status {
        values.insert(values.end(), tile.begin(), tile.end());
        return {};
      },
      report));
  return rounded_values(op.encoding, type, values);
}

Result<Tensor> read_weight(const Program& program, const Weight& op, ValueId id,
                           const WeightReader& weights) {
  auto data = is_plain(op.encoding) ? weights.read_f32(op.view, program.options.memory_limit)
                                    : read_encoded(op, program.shard.type(id), weights);
  if (data) return Tensor{program.shard.type(id), std::move(*data)};
  for (Diagnostic& finding : data.error()) {
    finding.place.shard = program.shard.name;
    finding.place.op = program.shard.label(id);
  }
  return fail(std::move(data.error()));
}

Status load_fixed_values(Program& program, const WeightReader& weights) {
  for (uint32_t i = 0; i < program.shard.values.size(); ++i) program.fixed.push({});
  for (const Op& op : program.shard.ops) {
    if (op.results.empty() || !program.is_fixed[op.results.front()]) continue;
    if (const auto* weight = std::get_if<Weight>(&op.data)) {
      Tensor& slot = program.fixed[op.results.front()];
      MOEC_ASSIGN(slot, read_weight(program, *weight, op.results.front(), weights));
      round_elements(slot, program.options.precision);
      continue;
    }
    std::vector<const Tensor*> operands;
    for (ValueId id : op.operands) operands.push_back(&program.fixed[id]);
    std::vector<Tensor> results =
        eval_op(program.shard, op, std::move(operands), program.options.precision);
    for (size_t i = 0; i < results.size(); ++i)
      program.fixed[op.results[i]] = std::move(results[i]);
  }
  return {};
}

}  // namespace

std::vector<Tensor> eval_op(const Shard& shard, const Op& op, std::vector<const Tensor*> operands,
                            Precision precision) {
  std::vector<Type> types;
  for (ValueId id : op.results) types.push_back(shard.type(id));
  const Call call{std::move(operands), types};
  std::vector<Tensor> results =
      std::visit([&](const auto& data) { return eval_one(data, call); }, op.data);
  for (Tensor& result : results) round_elements(result, precision);
  return results;
}

void reset_states(Program& program) {
  for (const State& state : program.shard.states)
    program.states[state.name] = {state.type,
                                  std::vector<float>(static_cast<size_t>(state.type.elements()))};
}

Result<Program> load_program(const Shard& shard, const WeightReader& weights,
                             const ExecutorOptions& options) {
  Program program;
  program.shard = shard;
  program.options = options;
  find_fixed_values(program);
  find_last_uses(program);
  MOEC_TRY(check_memory(program));
  MOEC_TRY(load_fixed_values(program, weights));
  reset_states(program);
  return program;
}

}  // namespace moec
