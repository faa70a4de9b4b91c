#include "backends/files/data_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/base/invariant.h"

namespace moec {

namespace {

// Keys of literals cannot equal those of views: no view's text begins like this.
std::string literal_key(const std::string& bytes, DType dtype) {
  return fmt::format("literal {} {}", dtype_name(dtype), bytes);
}

}  // namespace

void DataLayout::add(const WeightView& view, const Type& type, const std::string& name) {
  place({.key = to_string(view),
         .name = name,
         .dtype = type.dtype,
         .view = view,
         .bytes = static_cast<uint64_t>(type.bytes())});
}

void DataLayout::add_literal(std::string bytes, DType dtype, const std::string& name) {
  const uint64_t size = bytes.size();
  std::string key = literal_key(bytes, dtype);
  place({.key = std::move(key),
         .name = name,
         .dtype = dtype,
         .literal = std::move(bytes),
         .bytes = size});
}

void DataLayout::place(Entry entry) {
  if (!by_key_.emplace(entry.key, entries_.size()).second) return;
  const uint64_t end = std::max(file_bytes(), format_.file_head);
  const uint64_t start = (end + format_.alignment - 1) / format_.alignment * format_.alignment;
  entry.offset = start + format_.entry_lead;
  entries_.push_back(std::move(entry));
}

const DataLayout::Entry& DataLayout::find(const WeightView& view) const {
  return find_key(to_string(view));
}

const DataLayout::Entry& DataLayout::find_literal(const std::string& bytes, DType dtype) const {
  return find_key(literal_key(bytes, dtype));
}

const DataLayout::Entry& DataLayout::find_key(const std::string& key) const {
  auto found = by_key_.find(key);
  MOEC_CHECK(found != by_key_.end(), "the data layout lacks {}", key);
  return entries_[found->second];
}

std::vector<WeightView> DataLayout::views() const {
  std::vector<WeightView> views;
  for (const Entry& entry : entries_)
    if (entry.literal.empty()) views.push_back(entry.view);
  return views;
}

uint64_t DataLayout::file_bytes() const {
  return entries_.empty() ? 0 : entries_.back().offset + entries_.back().bytes;
}

uint64_t DataLayout::weight_bytes() const {
  uint64_t total = 0;
  for (const Entry& entry : entries_)
    if (entry.literal.empty()) total += entry.bytes;
  return total;
}

}  // namespace moec
