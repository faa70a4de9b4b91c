#include "backends/reference/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/reference/rounding.h"
#include "backends/weights/encode/weight_encoder.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

void append(Tensor result, std::vector<Tensor>& results) { results.push_back(std::move(result)); }
void append(std::vector<Tensor> all, std::vector<Tensor>& results) {
  for (Tensor& result : all) results.push_back(std::move(result));
}

// An op without eval() in eval.h is a compile error.
template <PureOp OpT>
void eval_one(const OpT& op, const Call& call, std::vector<Tensor>& results) {
  append(eval(op, call), results);
}

// Ops that load_program() and run_program() evaluate themselves, because they are not functions of
// their operands.
template <class OpT>
void eval_one(const OpT& op, const Call&, std::vector<Tensor>&) {
  MOEC_CHECK(false, "{} has no definition by values alone", mnemonic(op));
}

// An op without operands is fixed unless it reads a state. Inputs have no op.
bool is_fixed_op(const Program& program, const Op& op) {
  if (reads_state(op.data)) return false;
  if (!op.results.empty() && program.paged.values[op.results.front()]) return false;
  return std::all_of(op.operands.begin(), op.operands.end(),
                     [&](ValueId id) { return program.is_fixed[id] != 0; });
}

void find_fixed_values(Program& program) {
  for (const OpId id : op_ids(program.shard)) {
    const Op& op = program.shard.ops[id];
    const uint8_t fixed = is_fixed_op(program, op) ? 1 : 0;
    for (ValueId result : op.results) program.is_fixed[result] = fixed;
  }
}

void find_types(Program& program) {
  for (const Op& op : program.shard.ops) {
    std::vector<Type> types;
    for (const ValueId id : op.results) types.push_back(program.shard.type(id));
    program.types.push(std::move(types));
  }
}

void find_last_uses(Program& program) {
  for (OpId op : op_ids(program.shard))
    for (ValueId id : program.shard.ops[op].operands) program.last_use[id] = op.index;
  for (const Output& output : program.shard.outputs)
    program.last_use[output.value] = static_cast<uint32_t>(program.shard.ops.size());
}

IdMap<ValueId, uint8_t> brought_values(const Program& program) {
  IdMap<ValueId, uint8_t> brought(program.shard.values.size());
  for (uint32_t i = 0; i < program.shard.values.size(); ++i)
    brought[ValueId{i}] = is_brought(program, ValueId{i}) ? 1 : 0;
  return brought;
}

// True if the operand is the right factor of a product whose left factor is computed per run.
bool is_right_factor(const Program& program, const Op& op, size_t operand) {
  return operand == 1 && std::holds_alternative<MatMul>(op.data) &&
         !is_brought(program, op.operands[0]);
}

// Finds transposes whose results are used only as right factors of products. The products read the
// operand of the transpose in place; an example is the keys of attention.
void find_turned(Program& program) {
  const Shard& shard = program.shard;
  for (const Op& op : shard.ops)
    if (const auto* transpose = std::get_if<Transpose>(&op.data);
        transpose && swaps_last_axes(transpose->perm) && !is_brought(program, op.operands[0]))
      program.turned[op.results[0]] = op.operands[0];
  for (const Op& op : shard.ops)
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (!is_right_factor(program, op, i)) program.turned[op.operands[i]] = {};
  for (const Output& output : shard.outputs) program.turned[output.value] = {};
}

// Extends the last uses of values that products read in place of their transposes.
void keep_turned(Program& program) {
  for (const OpId op : op_ids(program.shard))
    for (const ValueId id : program.shard.ops[op].operands)
      if (const ValueId from = program.turned[id]; from.valid())
        program.last_use[from] = std::max(program.last_use[from], op.index);
}

// True if the file of the weight contains the values of its view.
bool keeps_values(const Encoding& encoding) { return is_plain(encoding) || is_copied(encoding); }

// True if the value may stay in its file: a large weight or, with kernels that read them, a
// transpose or a reshape of one.
bool may_be_stored(const Program& program, const WeightMatrices& matrices, const Op& op) {
  if (op.results.size() != 1 || !matrices[op.results.front()]) return false;
  const ValueId id = op.results.front();
  return !program.paged.values[id] && program.shard.type(id).elements() >= kStoredElements &&
         (program.options.products != nullptr || std::holds_alternative<Weight>(op.data));
}

// Finds large weights that every use can read from their file. The values of an encoded weight are
// not in any file. Ops follow the values that they use, so they are visited in reverse order.
IdMap<ValueId, uint8_t> find_storable(const Program& program, const WeightMatrices& matrices) {
  const Shard& shard = program.shard;
  IdMap<ValueId, uint8_t> storable(shard.values.size());
  for (const Op& op : shard.ops)
    if (may_be_stored(program, matrices, op)) storable[op.results.front()] = 1;
  for (const Output& output : shard.outputs) storable[output.value] = 0;
  for (size_t i = shard.ops.size(); i-- > 0;) {
    const Op& op = shard.ops[OpId{static_cast<uint32_t>(i)}];
    const bool is_fixed = !op.results.empty() && program.is_fixed[op.results.front()];
    const bool is_view = is_fixed && storable[op.results.front()];
    for (size_t operand = 0; operand < op.operands.size(); ++operand) {
      const ValueId id = op.operands[operand];
      const bool reads = matrices[id] && reads_stored(shard, op, operand, matrices[id]->is_turned);
      // An op that is computed once at load needs its operands as elements, unless its result is a
      // view of a stored weight.
      if (!is_view && (is_fixed || !reads)) storable[id] = 0;
    }
  }
  return storable;
}

Diagnostics at_value(Diagnostics findings, const Shard& shard, ValueId id) {
  for (Diagnostic& finding : findings) {
    finding.place.shard = shard.name;
    finding.place.op = shard.label(id);
  }
  return findings;
}

// Values that are read by ops whose results are not views of weights.
IdMap<ValueId, uint8_t> find_read(const Program& program, const WeightMatrices& matrices) {
  IdMap<ValueId, uint8_t> read(program.shard.values.size());
  for (const Op& op : program.shard.ops)
    if (op.results.size() != 1 || !matrices[op.results.front()])
      for (const ValueId id : op.operands) read[id] = 1;
  return read;
}

void store(Program& program, ValueId id, auto values, const StoredForm& form, bool is_read) {
  program.files.insert(values.file());
  if (is_read) {
    program.memory.mapped += values.bytes();
    program.memory.largest = std::max(program.memory.largest, values.bytes());
  }
  program.stored[id].emplace(std::move(values), form);
}

Status find_stored_weights(Program& program, const WeightMatrices& matrices,
                           const WeightReader& weights) {
  const Shard& shard = program.shard;
  for (uint32_t i = 0; i < shard.values.size(); ++i) program.stored.push({});
  const IdMap<ValueId, uint8_t> storable = find_storable(program, matrices);
  const IdMap<ValueId, uint8_t> read = find_read(program, matrices);
  for (const Op& op : shard.ops) {
    if (op.results.empty() || !storable[op.results.front()]) continue;
    const ValueId id = op.results.front();
    const WeightMatrix& matrix = *matrices[id];
    StoredForm form{program.options.precision == Precision::f16, matrix.is_turned};
    auto values = weights.map(matrix.view);
    if (!values) return fail(at_value(std::move(values.error()), shard, id));
    if (*values) {
      form.rounds &= (*values)->dtype() != DType::f16;
      store(program, id, std::move(**values), form, read[id] != 0);
      continue;
    }
    if (program.options.products == nullptr) continue;
    auto codes = weights.map_codes(matrix.view);
    if (!codes) return fail(at_value(std::move(codes.error()), shard, id));
    if (!*codes) continue;
    form.rounds &= (*codes)->type().dtype != DType::f16;
    store(program, id, std::move(**codes), form, read[id] != 0);
  }
  return {};
}

// Returns the weight's values after encoding, as a reader of the emitted file decodes them.
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
  auto data = keeps_values(op.encoding) ? weights.read_f32(op.view, program.options.memory_limit)
                                        : read_encoded(op, program.shard.type(id), weights);
  if (data) return Tensor{program.shard.type(id), std::move(*data)};
  return fail(at_value(std::move(data.error()), program.shard, id));
}

Status load_fixed_values(Program& program, const WeightReader& weights) {
  for (uint32_t i = 0; i < program.shard.values.size(); ++i) program.fixed.push({});
  for (const OpId op_id : op_ids(program.shard)) {
    const Op& op = program.shard.ops[op_id];
    // Ops come in order of definition, so the operands of a fixed op have been computed.
    if (op.results.empty() || !program.is_fixed[op.results.front()]) continue;
    if (program.stored[op.results.front()]) {
      program.fixed[op.results.front()].type = program.shard.type(op.results.front());
      continue;
    }
    if (const auto* weight = std::get_if<Weight>(&op.data)) {
      Tensor& slot = program.fixed[op.results.front()];
      MOEC_ASSIGN(slot, read_weight(program, *weight, op.results.front(), weights));
      round_elements(slot, program.options.precision);
      continue;
    }
    std::vector<const Tensor*> operands;
    for (ValueId id : op.operands) operands.push_back(&program.fixed[id]);
    std::vector<Tensor> results;
    eval_op(program, op_id, operands, program.types[op_id], {}, results);
    for (size_t i = 0; i < results.size(); ++i)
      program.fixed[op.results[i]] = std::move(results[i]);
  }
  return {};
}

// Empty if all operands are in memory.
std::vector<const StoredWeight*> stored_operands(const Program& program, OpId op) {
  if (!program.runs.reads_weights[op]) return {};
  std::vector<const StoredWeight*> stored;
  for (ValueId id : program.shard.ops[op].operands)
    stored.push_back(program.stored[id] ? &*program.stored[id] : nullptr);
  return stored;
}

}  // namespace

void eval_op(const Program& program, OpId id, const std::vector<const Tensor*>& operands,
             std::span<const Type> types, const RunProbes& probes, std::vector<Tensor>& results) {
  const Op& op = program.shard.ops[id];
  Call call{operands, types, stored_operands(program, id), {}, probes.experts};
  call.products = program.options.products;
  call.right_is_turned = op.operands.size() == 2 && program.turned[op.operands[1]].valid();
  if (probes.matrices)
    call.applied = [&](size_t operand, int64_t inputs, std::span<const float> rows) {
      probes.matrices({program.shard.label(op.operands[operand]), inputs, rows});
    };
  std::visit([&](const auto& data) { eval_one(data, call, results); }, op.data);
  for (Tensor& result : results) round_elements(result, program.options.precision);
}

void reset_states(Program& program) {
  for (const State& state : program.shard.states)
    program.states[state.name] = {state.type,
                                  std::vector<float>(static_cast<size_t>(state.type.elements()))};
}

// Removes the gates of parts that contain a watched value.
static void open_watched(Program& program) {
  Gates& gates = program.gates;
  std::set<uint32_t> opened;
  for (uint32_t i = 0; i < program.shard.values.size(); ++i)
    for (const std::string& ending : program.options.watched)
      if (program.shard.label(ValueId{i}).ends_with(ending))
        opened.insert(gates.of_value[ValueId{i}]);
  for (const OpId id : op_ids(program.shard)) {
    if (!opened.contains(gates.of_op[id])) continue;
    gates.of_op[id] = Gates::kNone;
    for (const ValueId result : program.shard.ops[id].results)
      gates.of_value[result] = Gates::kNone;
  }
}

// Keeps the weights of each gate alive until the last op of its part.
static void keep_gates(Program& program) {
  for (const Gate& gate : program.gates.gates)
    program.last_use[gate.weights] = std::max(program.last_use[gate.weights], gate.last_op);
}

// All but what depends on the weights.
static Program prepare(const Shard& shard, const ExecutorOptions& options, PagedWeights paged) {
  Program program;
  program.shard = shard;
  program.options = options;
  program.paged = std::move(paged);
  program.runs.values = IdMap<ValueId, Tensor>(shard.values.size());
  find_types(program);
  find_fixed_values(program);
  find_last_uses(program);
  find_turned(program);
  keep_turned(program);
  if (options.products == nullptr) return program;
  program.gates = find_gates(shard, brought_values(program));
  open_watched(program);
  keep_gates(program);
  return program;
}

Program plan_program(const Shard& shard, const Products& products) {
  PagedWeights paged;
  for (size_t i = 0; i < shard.values.size(); ++i) paged.values.push({});
  Program program = prepare(shard, {.products = &products}, std::move(paged));
  for (size_t i = 0; i < shard.values.size(); ++i) program.stored.push({});
  plan_runs(program);
  return program;
}

Result<Program> load_program(const Shard& shard, const WeightReader& weights,
                             const ExecutorOptions& options) {
  const WeightMatrices matrices = find_weight_matrices(shard, options.products != nullptr);
  MOEC_ASSIGN(PagedWeights paged, find_paged(shard, matrices, weights.table(), options.pager));
  Program program = prepare(shard, options, std::move(paged));
  MOEC_TRY(find_stored_weights(program, matrices, weights));
  plan_runs(program);
  MOEC_TRY(check_memory(program));
  if (options.products != nullptr) note_widened(program);
  MOEC_TRY(load_fixed_values(program, weights));
  reset_states(program);
  return program;
}

}  // namespace moec
