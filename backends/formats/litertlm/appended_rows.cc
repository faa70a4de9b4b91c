#include "backends/formats/litertlm/appended_rows.h"

#include <algorithm>

namespace moec {
namespace {

constexpr int64_t kRowAxis = 2;

}  // namespace

std::optional<AppendedRows> appended_rows(const Shard& shard, ValueId cache) {
  std::optional<AppendedRows> found;
  for (const OpId id : op_ids(shard)) {
    const Op& op = shard.ops[id];
    if (std::find(op.operands.begin(), op.operands.end(), cache) == op.operands.end()) continue;
    const auto* concat = std::get_if<Concat>(&op.data);
    if (found || !concat || concat->axis != kRowAxis || op.operands.size() != 2 ||
        op.operands[0] != cache)
      return std::nullopt;
    found = {id, op.operands[1]};
  }
  return found;
}

ValueId find_input(const Shard& shard, const std::string& name) {
  for (const ValueId input : shard.inputs)
    if (shard.values[input].name == name) return input;
  return {};
}

const Output* find_output(const Shard& shard, const std::string& name) {
  const auto found = std::find_if(shard.outputs.begin(), shard.outputs.end(),
                                  [&](const Output& output) { return output.name == name; });
  return found == shard.outputs.end() ? nullptr : &*found;
}

}  // namespace moec
