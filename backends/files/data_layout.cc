#include "backends/files/data_layout.h"

#include <algorithm>

#include "ir/invariant.h"

namespace moec {

void DataLayout::add(const WeightView& view, uint64_t bytes, const std::string& name) {
  std::string key = to_string(view);
  if (!by_key_.emplace(key, entries_.size()).second) return;
  const uint64_t end = std::max(file_bytes(), format_.file_head);
  const uint64_t start = (end + format_.alignment - 1) / format_.alignment * format_.alignment;
  entries_.push_back({std::move(key), name, view, start + format_.entry_lead, bytes});
}

const DataLayout::Entry& DataLayout::find(const WeightView& view) const {
  auto found = by_key_.find(to_string(view));
  MOEC_CHECK(found != by_key_.end(), "the data layout lacks {}", to_string(view));
  return entries_[found->second];
}

uint64_t DataLayout::file_bytes() const {
  return entries_.empty() ? 0 : entries_.back().offset + entries_.back().bytes;
}

uint64_t DataLayout::weight_bytes() const {
  uint64_t total = 0;
  for (const Entry& entry : entries_) total += entry.bytes;
  return total;
}

}  // namespace moec
