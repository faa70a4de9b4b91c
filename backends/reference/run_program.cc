#include "backends/reference/program.h"
#include "backends/reference/rounding.h"

namespace moec {
namespace {

// One run, and its values.
class Run {
 public:
  Run(Program& program, const RunProbes& probes)
      : program_(program), shard_(program.shard), probes_(probes) {
    for (uint32_t i = 0; i < shard_.values.size(); ++i) {
      own_.push({});
      at_.push(program.is_fixed[ValueId{i}] ? &program.fixed[ValueId{i}] : nullptr);
    }
  }

  std::vector<Tensor> operator()(std::vector<Tensor> inputs) {
    for (size_t i = 0; i < inputs.size(); ++i)
      define(shard_.inputs[i], {shard_.type(shard_.inputs[i]), std::move(inputs[i].data)});
    for (OpId op : op_ids(shard_)) {
      step(shard_.ops[op]);
      for (ValueId id : shard_.ops[op].results) see(id);
      drop_used(op);
    }
    std::vector<Tensor> outputs;
    for (const Output& output : shard_.outputs) outputs.push_back(*at_[output.value]);
    for (auto& [state, value] : writes_) program_.states[state] = std::move(value);
    return outputs;
  }

 private:
  void define(ValueId id, Tensor value) {
    round_elements(value, program_.options.precision);
    own_[id] = std::move(value);
    at_[id] = &own_[id];
    if (!shard_.values[id].producer.valid()) see(id);
  }

  void step(const Op& op) {
    if (!op.results.empty() && program_.is_fixed[op.results.front()]) return;
    if (const auto* read = std::get_if<StateRead>(&op.data)) {
      at_[op.results.front()] = &program_.states[read->state];
      return;
    }
    // Writes take effect after the run: a later read in this run still gets the old value.
    if (const auto* write = std::get_if<StateWrite>(&op.data)) {
      writes_[write->state] = *at_[op.operands.front()];
      return;
    }
    std::vector<const Tensor*> operands;
    for (ValueId id : op.operands) operands.push_back(at_[id]);
    std::vector<Tensor> results = eval_op(program_, op, std::move(operands), probes_);
    for (size_t i = 0; i < results.size(); ++i) {
      own_[op.results[i]] = std::move(results[i]);
      at_[op.results[i]] = &own_[op.results[i]];
    }
  }

  void see(ValueId id) const {
    if (probes_.values && !program_.stored[id]) probes_.values(shard_.label(id), *at_[id]);
  }

  // Frees operands that no later op uses, and results that no op uses.
  void drop_used(OpId op) {
    if (program_.releases_weights)
      for (ValueId id : shard_.ops[op].operands)
        if (program_.stored[id]) program_.stored[id]->values.release();
    for (ValueId id : shard_.ops[op].operands)
      if (program_.last_use[id] == op.index) own_[id] = {};
    for (ValueId id : shard_.ops[op].results)
      if (program_.last_use[id] <= op.index) own_[id] = {};
  }

  Program& program_;
  const Shard& shard_;
  const RunProbes& probes_;
  IdVector<ValueId, Tensor> own_;
  IdVector<ValueId, const Tensor*> at_;  // fixed, a state, or own
  std::map<std::string, Tensor> writes_;
};

}  // namespace

std::vector<Tensor> run_program(Program& program, std::vector<Tensor> inputs,
                                const RunProbes& probes) {
  return Run(program, probes)(std::move(inputs));
}

}  // namespace moec
