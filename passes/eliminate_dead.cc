#include <algorithm>

#include "ir/graph/rewriter.h"
#include "passes/passes.h"

namespace moec {
namespace {

// The ops that an output or a state depends on. Definitions precede uses, so one backward walk
// visits each op after all of its users.
std::vector<bool> live_ops(const Shard& shard) {
  std::vector<bool> live(shard.ops.size(), false);
  auto mark = [&](ValueId value) {
    OpId producer = shard.values[value].producer;
    if (producer.valid()) live[producer.index] = true;
  };
  for (const Output& output : shard.outputs) mark(output.value);
  for (size_t i = shard.ops.size(); i-- > 0;) {
    const OpId id{static_cast<uint32_t>(i)};
    const Op& op = shard.ops[id];
    if (writes_state(op.data)) live[id.index] = true;
    if (live[id.index])
      for (ValueId operand : op.operands) mark(operand);
  }
  return live;
}

}  // namespace

Result<Shard> eliminate_dead(const Shard& shard, PassContext&) {
  const std::vector<bool> live = live_ops(shard);
  if (std::find(live.begin(), live.end(), false) == live.end()) return shard;
  Rewriter rewriter(shard);
  for (OpId id : op_ids(shard))
    if (live[id.index]) rewriter.copy(id);
  return rewriter.finish();
}

}  // namespace moec
