#include "backends/formats/coreml/mil_names.h"

#include <algorithm>
#include <array>

#include "backends/emit/shard_facts.h"
#include "backends/formats/coreml/mil_ops.h"

namespace moec {
namespace {

constexpr std::array<std::string_view, 24> kReserved = {
    "any",   "bool",  "program", "func",  "tensor", "list",   "dict",   "tuple",
    "true",  "false", "string",  "bf16",  "fp16",   "fp32",   "fp64",   "int8",
    "int16", "int32", "int64",   "uint8", "uint16", "uint32", "uint64", "state"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_';
}

// A MIL name cannot begin with a digit. Characters that MIL does not allow become `_`.
std::string spelled(std::string_view label) {
  std::string name = is_digit(label.front()) ? "_" : "";
  for (char c : label) name += is_word(c) ? c : '_';
  return name;
}

// `value.index` makes the names of unnamed values distinct, so that few names need a suffix.
std::string wanted_name(const Shard& shard, ValueId value) {
  const Value& data = shard.values[value];
  if (!data.name.empty()) return spelled(data.name);
  return std::string(mil_op_type(shard.ops[data.producer].data)) + "_" +
         std::to_string(value.index);
}

}  // namespace

bool is_mil_name(std::string_view name) {
  return !name.empty() && !is_digit(name.front()) &&
         std::all_of(name.begin(), name.end(), is_word) &&
         std::find(kReserved.begin(), kReserved.end(), name) == kReserved.end();
}

IdMap<OpId, std::string> mil_op_names(const Shard& shard) {
  const MilNames names(shard);
  IdMap<OpId, std::string> found(shard.ops.size());
  for (OpId id : op_ids(shard)) {
    const Op& op = shard.ops[id];
    if (writes_state(op.data))
      found[id] = "write_state " + *state_of(op.data);
    else if (!is_source(shard, op.results[0]))
      found[id] = names.value(op.results[0]);
  }
  return found;
}

MilNames::MilNames(const Shard& shard) : shard_(shard), values_(shard.values.size()) {
  // Ports and states take their names first, because runtimes bind them by name. All other values
  // avoid them.
  for (std::string_view word : kReserved) taken_.emplace(word);
  for (ValueId input : shard.inputs) values_[input] = fresh(shard.values[input].name);
  for (const State& state : shard.states) taken_.insert(state.name);
  name_outputs();
  for (OpId op : op_ids(shard))
    for (ValueId value : shard.ops[op].results)
      if (values_[value].empty()) values_[value] = fresh(wanted_name(shard, value));
}

// The constructor names values in a fixed order, so the suffixes are deterministic.
std::string MilNames::fresh(const std::string& wanted) {
  std::string name = wanted;
  for (int suffix = 2; !taken_.insert(name).second; ++suffix)
    name = wanted + "_" + std::to_string(suffix);
  return name;
}

// A value has one name. An output becomes a copy if its value already has a name or is a source.
void MilNames::name_outputs() {
  for (const Output& output : shard_.outputs) {
    std::string& name = values_[output.value];
    taken_.insert(output.name);
    if (name.empty() && !is_source(shard_, output.value))
      name = output.name;
    else
      copies_.push_back(output);
  }
}

}  // namespace moec
