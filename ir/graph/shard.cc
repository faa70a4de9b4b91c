#include "ir/graph/shard.h"

namespace moec {

const State* Shard::find_state(std::string_view state_name) const {
  for (const State& state : states)
    if (state.name == state_name) return &state;
  return nullptr;
}

std::string Shard::label(ValueId id) const {
  const std::string& value_name = values[id].name;
  return value_name.empty() ? std::to_string(id.index) : value_name;
}

IdMap<ValueId, uint32_t> count_uses(const Shard& shard) {
  IdMap<ValueId, uint32_t> uses(shard.values.size());
  for (const Op& op : shard.ops)
    for (ValueId operand : op.operands) ++uses[operand];
  // A value that is only an output is not dead.
  for (const Output& output : shard.outputs) ++uses[output.value];
  return uses;
}

IdMap<ValueId, std::vector<OpId>> find_users(const Shard& shard) {
  IdMap<ValueId, std::vector<OpId>> users(shard.values.size());
  for (const OpId id : op_ids(shard))
    for (const ValueId operand : shard.ops[id].operands) users[operand].push_back(id);
  return users;
}

}  // namespace moec
