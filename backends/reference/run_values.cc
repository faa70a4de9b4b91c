// Values of a run.
#include <algorithm>

#include "backends/reference/program.h"
#include "backends/reference/rounding.h"

namespace moec {

RunValues::RunValues(Program& program) : program_(program), at_(program.runs.places) {
  at_.assign(program.shard.values.size(), nullptr);
}

RunValues::~RunValues() {
  if (!is_finished_) program_.runs.values = IdMap<ValueId, Tensor>(program_.shard.values.size());
}

void RunValues::define(ValueId id, const Tensor& input) {
  const Type& type = program_.shard.type(id);
  at_[id.index] = &input;
  // Rounding to binary16 does not change halves.
  const bool rounds = rounds_elements(type.dtype, program_.options.precision) &&
                      (input.halves.empty() || type.dtype == DType::bf16);
  if (input.type != type || rounds) put(id, {type, input.data, input.halves});
  if (rounds) {
    own(id) = widened(own(id));
    round_elements(own(id), program_.options.precision);
  }
}

void RunValues::put(ValueId id, Tensor value) {
  own(id) = std::move(value);
  at_[id.index] = &own(id);
}

void RunValues::take(const Op& op, std::vector<Tensor>& results) {
  for (size_t i = 0; i < op.results.size(); ++i) put(op.results[i], std::move(results[i]));
}

const Tensor& RunValues::at(ValueId id) const {
  const Tensor* known = at_[id.index];
  return known != nullptr ? *known : program_.fixed[id];
}

const Tensor& RunValues::whole(ValueId id) {
  if (!at(id).halves.empty()) put(id, widened(at(id)));
  return at(id);
}

std::vector<Tensor> RunValues::outputs() {
  const std::vector<Output>& all = program_.shard.outputs;
  std::vector<Tensor> outputs;
  for (const Output& output : all) {
    const Tensor& value = whole(output.value);
    const auto uses =
        std::ranges::count_if(all, [&](const Output& of) { return of.value == output.value; });
    if (is_own(output.value) && uses == 1)
      outputs.push_back(std::move(own(output.value)));
    else
      outputs.push_back(value);
  }
  for (const Output& output : all) drop(output.value);
  for (const ValueId input : program_.shard.inputs) drop(input);
  is_finished_ = true;
  return outputs;
}

}  // namespace moec
