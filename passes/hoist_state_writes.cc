#include <algorithm>

#include "ir/graph/rewriter.h"
#include "passes/passes.h"

namespace moec {
namespace {

// The number of leading ops that must precede a write: all up to the producer of its value and the
// last read of its state. Devices run ops in order, so a later read would see the new value.
size_t first_place(const Shard& shard, const Op& write) {
  const OpId producer = shard.values[write.operands[0]].producer;
  size_t place = producer.valid() ? producer.index + 1 : 0;
  for (OpId id : op_ids(shard)) {
    const OpData& data = shard.ops[id].data;
    if (reads_state(data) && *state_of(data) == *state_of(write.data))
      place = std::max<size_t>(place, id.index + 1);
  }
  return place;
}

}  // namespace

Result<Shard> hoist_state_writes(const Shard& shard, PassContext&) {
  std::vector<std::vector<OpId>> writes(shard.ops.size() + 1);
  for (OpId id : op_ids(shard))
    if (const Op& op = shard.ops[id]; writes_state(op.data))
      writes[first_place(shard, op)].push_back(id);
  Rewriter rewriter(shard);
  for (size_t place = 0; place <= shard.ops.size(); ++place) {
    for (OpId write : writes[place]) rewriter.copy(write);
    if (place == shard.ops.size()) break;
    const OpId id{static_cast<uint32_t>(place)};
    if (!writes_state(shard.ops[id].data)) rewriter.copy(id);
  }
  return rewriter.finish();
}

}  // namespace moec
