#include "ir/graph/rewriter.h"

#include <algorithm>

#include "ir/base/invariant.h"

namespace moec {

Rewriter::Rewriter(const Shard& from) : from_(from), builder_(from.name, from.form) {
  // Inputs and states are part of the interface, which a rewriting pass keeps.
  for (ValueId input : from.inputs)
    map_[input] = builder_.input(from.values[input].name, from.type(input));
  for (const State& state : from.states) builder_.state(state.name, state.type);
}

ValueId Rewriter::operator()(ValueId old) const {
  ValueId mapped = map_[old];
  MOEC_CHECK(mapped.valid(), "value {} of shard {} was neither copied nor replaced",
             from_.label(old), from_.name);
  return mapped;
}

std::vector<ValueId> Rewriter::operator()(const std::vector<ValueId>& olds) const {
  std::vector<ValueId> mapped;
  mapped.reserve(olds.size());
  for (ValueId old : olds) mapped.push_back((*this)(old));
  return mapped;
}

void Rewriter::copy(OpId op) {
  const Op& old = from_.ops[op];
  std::vector<ValueId> operands = (*this)(old.operands);
  const auto keeps_type = [&](ValueId before, ValueId after) {
    return from_.type(before) == builder_.type(after);
  };
  if (!std::equal(old.operands.begin(), old.operands.end(), operands.begin(), keeps_type))
    return copy_as(op, old.data, std::move(operands));
  // Inference would return the same types again, and costs more than the copy.
  std::vector<Type> types;
  types.reserve(old.results.size());
  for (ValueId result : old.results) types.push_back(from_.type(result));
  replace(op, builder_.emit_typed(old.data, std::move(operands), std::move(types)));
}

void Rewriter::copy_as(OpId op, OpData data, std::vector<ValueId> new_operands) {
  replace(op, builder_.emit_all(std::move(data), std::move(new_operands)));
}

void Rewriter::replace(OpId op, std::vector<ValueId> new_results) {
  const std::vector<ValueId>& olds = from_.ops[op].results;
  MOEC_CHECK(new_results.size() == olds.size(), "{} has {} results, got {}",
             mnemonic(from_.ops[op].data), olds.size(), new_results.size());
  for (size_t i = 0; i < olds.size(); ++i) replace_value(olds[i], new_results[i]);
}

void Rewriter::replace_value(ValueId old, ValueId new_value) {
  map_[old] = new_value;
  // Keeps the old name, so that messages before and after a pass name the same value.
  builder_.name_if_unnamed(new_value, from_.values[old].name);
}

std::string Rewriter::scope_name(OpId op) const {
  const Op& old = from_.ops[op];
  if (old.results.empty() || from_.values[old.results[0]].name.empty())
    // The position identifies an unnamed op, so that its scope has a distinct name.
    return "op" + std::to_string(op.index);
  return from_.values[old.results[0]].name;
}

Shard Rewriter::finish() {
  for (const Output& output : from_.outputs) builder_.output(output.name, (*this)(output.value));
  return builder_.finish();
}

}  // namespace moec
