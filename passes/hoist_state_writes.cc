#include <algorithm>

#include "ir/graph/rewriter.h"
#include "passes/passes.h"

namespace moec {
namespace {

// The number of leading ops that must precede a write: all up to the producer of its value and the
// last read of its state. Devices run ops in order, so a later read would see the new value.
size_t first_place(const Shard& shard, const StateWrite& write, ValueId value) {
  const OpId producer = shard.values[value].producer;
  size_t place = producer.valid() ? producer.index + 1 : 0;
  for (OpId id : op_ids(shard)) {
    const auto* read = std::get_if<StateRead>(&shard.ops[id].data);
    if (read && read->state == write.state) place = std::max<size_t>(place, id.index + 1);
  }
  return place;
}

}  // namespace

Result<Shard> hoist_state_writes(const Shard& shard, PassContext&) {
  std::vector<std::vector<OpId>> writes(shard.ops.size() + 1);
  for (OpId id : op_ids(shard))
    if (const auto* write = std::get_if<StateWrite>(&shard.ops[id].data))
      writes[first_place(shard, *write, shard.ops[id].operands[0])].push_back(id);
  Rewriter rewriter(shard);
  for (size_t place = 0; place <= shard.ops.size(); ++place) {
    for (OpId write : writes[place]) rewriter.copy(write);
    if (place == shard.ops.size()) break;
    const OpId id{static_cast<uint32_t>(place)};
    if (!std::holds_alternative<StateWrite>(shard.ops[id].data)) rewriter.copy(id);
  }
  return rewriter.finish();
}

}  // namespace moec
