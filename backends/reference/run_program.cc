#include "backends/reference/program.h"
#include "backends/reference/rounding.h"

namespace moec {
namespace {

// The units of the pager that a run takes, each from its first use to its last.
class UnitsInUse {
 public:
  explicit UnitsInUse(Program& program) : program_(program), pager_(program.options.pager) {}
  UnitsInUse(const UnitsInUse&) = delete;
  UnitsInUse& operator=(const UnitsInUse&) = delete;
  ~UnitsInUse() {
    for (const auto& [unit, bytes] : held_) pager_->release(unit);
  }

  // Makes the operands of an op ready that come from units. Returns whether all of them are there,
  // which fails where a unit takes no part, and after an error. Those that the op needs as tensors
  // are put into `tensors`, as zeros where they are not there.
  bool bind(const Op& op, IdMap<ValueId, Tensor>& tensors) {
    bool all = true;
    for (const ValueId id : op.operands) {
      if (!program_.paged.values[id]) continue;
      const HeldBytes* bytes = bytes_of(program_.paged.values[id]->unit);
      if (program_.paged.values[id]->as_tensor)
        tensors[id] = tensor_of(id, bytes);
      else if (bytes)
        bind_stored(id, bytes);
      else
        all = false;
    }
    return all;
  }

  // Gives back the units whose last op this was.
  void end(OpId op) {
    for (auto unit = held_.begin(); unit != held_.end();) {
      const bool ends = program_.paged.last_ops.at(unit->first) == op.index;
      if (ends) pager_->release(unit->first);
      unit = ends ? held_.erase(unit) : std::next(unit);
    }
  }

  const Status& failure() const { return failure_; }

 private:
  const HeldBytes* bytes_of(size_t unit) {
    if (const auto found = held_.find(unit); found != held_.end()) return found->second;
    if (!failure_) return nullptr;
    auto bytes = pager_->acquire(unit);
    if (!bytes) {
      failure_ = fail(std::move(bytes.error()));
      return nullptr;
    }
    return held_[unit] = *bytes;
  }

  void bind_stored(ValueId id, const HeldBytes* bytes) {
    const HeldView& view = program_.paged.values[id]->view;
    const bool rounds =
        program_.options.precision == Precision::f16 && view.type().dtype != DType::f16;
    program_.fixed[id].type = program_.shard.type(id);
    program_.stored[id].emplace(HeldValues{&view, bytes, &failure_}, rounds);
  }

  Tensor tensor_of(ValueId id, const HeldBytes* bytes) {
    const Type& type = program_.shard.type(id);
    Tensor tensor{type, std::vector<float>(static_cast<size_t>(type.elements()))};
    if (!bytes) return tensor;
    Status decoded =
        program_.paged.values[id]->view.widen(*bytes, 0, type.elements(), tensor.data.data());
    if (!decoded && failure_) failure_ = std::move(decoded);
    round_elements(tensor, program_.options.precision);
    return tensor;
  }

  Program& program_;
  WeightPager* pager_;
  std::map<size_t, const HeldBytes*> held_;
  Status failure_;
};

// One run, and its values.
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
    for (OpId op : op_ids(shard_)) {
      step(op);
      for (ValueId id : shard_.ops[op].results) see(id);
      drop_used(op);
      if (!units_.failure()) return fail(units_.failure().error());
    }
    std::vector<Tensor> outputs;
    for (const Output& output : shard_.outputs) outputs.push_back(*at_[output.value]);
    for (auto& [state, value] : writes_) program_.states[state] = std::move(value);
    return outputs;
  }

 private:
  // Takes an input where it lies, unless it has another type or must be rounded.
  void define(ValueId id, const Tensor& input) {
    const Type& type = shard_.type(id);
    at_[id] = &input;
    if (input.type != type || rounds_elements(type.dtype, program_.options.precision)) {
      put(id, {type, input.data});
      round_elements(own_[id], program_.options.precision);
    }
    see(id);
  }

  bool is_ready(const Op& op) const {
    return !op.results.empty() && (program_.is_fixed[op.results.front()] != 0 ||
                                   program_.paged.values[op.results.front()].has_value());
  }

  void step(OpId id) {
    const Op& op = shard_.ops[id];
    if (is_ready(op) || is_left_out(op)) return;
    if (ends_in_reshape(id)) return put(op.results.front(), reshaped(op));
    if (const auto* read = std::get_if<StateRead>(&op.data)) {
      at_[op.results.front()] = &program_.states[read->state];
      return;
    }
    // Writes take effect after the run: a later read in this run still gets the old value.
    if (const auto* write = std::get_if<StateWrite>(&op.data)) {
      writes_[write->state] = *at_[op.operands.front()];
      return;
    }
    take(op, units_.bind(op, own_) ? evaluate(op) : zeros(op));
  }

  // Whether nobody wants the result of a transpose: the products take what it transposes.
  bool is_left_out(const Op& op) const {
    return !probes_.values && !op.results.empty() && program_.turned[op.results.front()].valid();
  }

  // Whether the op reshapes a value of this run that nothing else takes.
  bool ends_in_reshape(OpId id) const {
    const Op& op = shard_.ops[id];
    if (!std::holds_alternative<Reshape>(op.data)) return false;
    const ValueId from = op.operands.front();
    return at_[from] == &own_[from] && program_.last_use[from] == id.index;
  }

  // The same elements, which are already rounded.
  Tensor reshaped(const Op& op) {
    return {shard_.type(op.results.front()), std::move(own_[op.operands.front()].data)};
  }

  std::vector<Tensor> evaluate(const Op& op) {
    std::vector<const Tensor*> operands;
    for (ValueId id : op.operands) {
      const auto& paged = program_.paged.values[id];
      const ValueId from = program_.turned[id].valid() ? program_.turned[id] : id;
      operands.push_back(paged && paged->as_tensor ? &own_[id] : at_[from]);
    }
    return eval_op(program_, op, std::move(operands), probes_);
  }

  // The results of products with a weight that takes no part.
  std::vector<Tensor> zeros(const Op& op) const {
    std::vector<Tensor> results;
    for (ValueId id : op.results) {
      const Type& type = shard_.type(id);
      results.push_back({type, std::vector<float>(static_cast<size_t>(type.elements()))});
    }
    return results;
  }

  void put(ValueId id, Tensor value) {
    own_[id] = std::move(value);
    at_[id] = &own_[id];
  }

  void take(const Op& op, std::vector<Tensor> results) {
    for (size_t i = 0; i < op.results.size(); ++i) put(op.results[i], std::move(results[i]));
  }

  void see(ValueId id) const {
    if (probes_.values && !program_.stored[id] && !program_.paged.values[id])
      probes_.values(shard_.label(id), *at_[id]);
  }

  // Frees operands that no later op uses, and results that no op uses.
  void drop_used(OpId op) {
    units_.end(op);
    if (program_.releases_weights)
      for (ValueId id : shard_.ops[op].operands)
        if (program_.stored[id] && program_.stored[id]->mapped())
          program_.stored[id]->mapped()->release();
    for (ValueId id : shard_.ops[op].operands)
      if (program_.last_use[id] == op.index) own_[id] = {};
    for (ValueId id : shard_.ops[op].results)
      if (program_.last_use[id] <= op.index) own_[id] = {};
  }

  Program& program_;
  const Shard& shard_;
  const RunProbes& probes_;
  UnitsInUse units_;
  IdMap<ValueId, Tensor> own_;
  IdMap<ValueId, const Tensor*> at_;  // fixed, a state, or own
  std::map<std::string, Tensor> writes_;
};

}  // namespace

Result<std::vector<Tensor>> run_program(Program& program, const std::vector<const Tensor*>& inputs,
                                        const RunProbes& probes) {
  return Run(program, probes)(inputs);
}

}  // namespace moec
