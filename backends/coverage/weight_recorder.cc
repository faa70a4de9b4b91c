#include "backends/coverage/weight_recorder.h"

#include <algorithm>

#include "backends/emit/data_layout.h"

namespace moec {

WeightRecorder::WeightRecorder(std::span<const Shard> widths, int64_t experts, size_t moe_layers) {
  for (const Shard& shard : widths) {
    const IdMap<OpId, OpRole> roles = find_experts(shard, experts, moe_layers);
    for (OpId id : op_ids(shard))
      if (const auto* weight = std::get_if<Weight>(&shard.ops[id].data)) {
        const ValueId value = shard.ops[id].results[0];
        add(shard.values[value].name, weight_key(*weight), shard.type(value), roles[id].share);
      }
  }
}

void WeightRecorder::add(const std::string& name, const std::string& weight, const Type& type,
                         const WeightShare& share) {
  const auto [begin, end] = by_weight_.equal_range(weight);
  if (std::any_of(begin, end, [&](const auto& known) {
        return entries_[known.second].name == name && entries_[known.second].share == share;
      }))
    return;
  by_weight_.emplace(weight, entries_.size());
  entries_.push_back({name, weight, type, share, {type, share.axis, share.count}});
}

void WeightRecorder::take(const std::string& weight, uint64_t offset,
                          std::span<const std::byte> bytes) {
  const auto [begin, end] = by_weight_.equal_range(weight);
  for (auto known = begin; known != end; ++known) {
    Entry& entry = entries_[known->second];
    // Several packages may write the same view; offset 0 restarts its digest, so the view counts
    // once.
    if (offset == 0) entry.digests = {entry.type, entry.share.axis, entry.share.count};
    entry.digests.update(bytes);
  }
}

std::vector<WeightRecord> WeightRecorder::records(std::span<const EmittedRange> ranges) const {
  std::map<std::string_view, std::vector<WeightRange>> places;
  for (const EmittedRange& range : ranges) places[range.weight].push_back(range.range);
  std::vector<WeightRecord> records;
  for (const Entry& entry : entries_) {
    WeightRecord& record = records.emplace_back();
    record.name = entry.name;
    record.role = entry.share.role;
    record.moe_layer = static_cast<int64_t>(entry.share.moe_layer);
    record.first_expert = entry.share.first;
    for (size_t block = 0; block < entry.digests.count(); ++block)
      record.digests += entry.digests.hex(block);
    record.ranges = places[entry.weight];
  }
  return records;
}

}  // namespace moec
