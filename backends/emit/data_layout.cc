#include "backends/emit/data_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/base/invariant.h"
#include "ir/graph/stored_codes.h"

namespace moec {

namespace {

// Never equals the key of a weight: no view's text begins with "literal".
std::string literal_key(const std::string& bytes, DType dtype) {
  return fmt::format("literal {} {}", dtype_name(dtype), bytes);
}

uint64_t round_up(uint64_t position, uint64_t alignment) {
  return (position + alignment - 1) / alignment * alignment;
}

// Key of one part of an encoded weight. The part's name comes first, so the key is
// unambiguous although the text of a view can contain spaces.
std::string part_key(const std::string& weight, WeightPart part) {
  return fmt::format("{} {}", enum_name(part), weight);
}

}  // namespace

// The same view can occur with several encodings in one file, so a key without the encoding would
// merge different bytes. Plain weights keep the bare text of the view.
std::string weight_key(const Weight& weight) {
  std::string key = to_string(weight.view);
  if (!is_plain(weight.encoding)) key += " as " + to_string(weight.encoding);
  return key;
}

void DataLayout::add(const Weight& weight, const Type& type, const std::string& name, CodeForm form,
                     std::optional<DType> scales) {
  Entry entry{.key = weight_key(weight), .name = name, .dtype = type.dtype};
  entry.source = {weight, type, form};
  entry.bytes = static_cast<uint64_t>(type.bytes());
  const std::string key = entry.key;
  if (is_plain(weight.encoding)) {
    place(std::move(entry), key);
  } else {
    // The codes must precede the other parts, as in stored_parts(): the pass over the codes
    // computes scales, zeros and tables unless they are copied.
    for (const StoredPart& part : stored_parts(weight.encoding, type, form)) {
      entry.part = part;
      entry.dtype = part.type.dtype;
      if (part.part == WeightPart::scales && scales) entry.dtype = *scales;
      entry.bytes = static_cast<uint64_t>(part.type.elements() * dtype_bytes(entry.dtype));
      place(entry, part_key(key, part.part));
    }
  }
  // Resets the request even if place() added no entry: it applies to this weight only.
  next_alignment_ = 0;
}

void DataLayout::add_codes(const Weight& weight, const Type& type, const std::string& name) {
  add_part(weight, type, name, WeightPart::codes);
}

void DataLayout::add_scales(const Weight& weight, const Type& type, const std::string& name) {
  add_part(weight, type, name, WeightPart::scales);
}

void DataLayout::add_part(const Weight& weight, const Type& type, const std::string& name,
                          WeightPart part) {
  MOEC_CHECK(!is_copied(weight.encoding), "{} stores codes that were copied", name);
  Entry entry{.key = weight_key(weight), .name = name, .source = {weight, type}};
  for (const StoredPart& stored : stored_parts(weight.encoding, type)) {
    if (stored.part != part) continue;
    entry.part = stored;
    entry.dtype = stored.type.dtype;
    entry.bytes = static_cast<uint64_t>(stored.type.bytes());
    entry.precedes_codes = part == WeightPart::scales;
    place(entry, part_key(entry.key, part));
  }
  next_alignment_ = 0;
}

void DataLayout::add_literal(std::string bytes, DType dtype, const std::string& name) {
  std::string key = literal_key(bytes, dtype);
  Entry entry{.key = key, .name = name, .dtype = dtype};
  entry.bytes = bytes.size();
  entry.literal = std::move(bytes);
  place(std::move(entry), key);
}

void DataLayout::place(Entry entry, const std::string& place_key) {
  if (!by_key_.emplace(place_key, entries_.size()).second) return;
  const uint64_t end = std::max(file_bytes(), format_.file_head), lead = format_.entry_lead;
  const uint64_t own = alignment_of(entry);
  // A requested alignment above that of the format applies to the data, so the lead-in ends at an
  // aligned offset. Otherwise the lead-in itself is aligned, and the data follow it directly.
  if (next_alignment_ > own) {
    entry.alignment = next_alignment_;
    entry.offset = round_up(end + lead, next_alignment_);
  } else {
    // The data begin at a multiple of `own` plus `lead`, so their alignment is the greatest common
    // divisor; gcd(own, 0) is `own`.
    entry.alignment = std::gcd(own, lead);
    entry.offset = round_up(end, own) + lead;
  }
  next_alignment_ = 0;
  entries_.push_back(std::move(entry));
}

// The alignment of the entry's lead-in if the format has one.
uint64_t DataLayout::alignment_of(const Entry& entry) const {
  const bool is_parameter = entry.part && entry.part->part != WeightPart::codes;
  return is_parameter && format_.parameters > 0 ? format_.parameters : format_.alignment;
}

const DataLayout::Entry& DataLayout::find(const Weight& weight) const {
  return find_key(weight_key(weight));
}

const DataLayout::Entry& DataLayout::find(const Weight& weight, WeightPart part) const {
  return find_key(part_key(weight_key(weight), part));
}

const DataLayout::Entry& DataLayout::find_literal(const std::string& bytes, DType dtype) const {
  return find_key(literal_key(bytes, dtype));
}

const DataLayout::Entry& DataLayout::find_key(const std::string& place_key) const {
  auto found = by_key_.find(place_key);
  MOEC_CHECK(found != by_key_.end(), "the data layout lacks {}", place_key);
  return entries_[found->second];
}

std::vector<WeightView> DataLayout::Entry::views() const {
  if (!literal.empty() || !is_copied(source.weight.encoding))
    return reads() ? std::vector{source.weight.view} : std::vector<WeightView>();
  const auto stored = stored_codes(source.weight.view);
  MOEC_CHECK(stored, "{} decodes no codes", key);
  std::vector<WeightView> views;
  // The values come first, for EmitOptions::on_weight. A second view has the stored part, which the
  // file receives without decoding.
  if (reads()) views.push_back(then(values_of(*stored), CastStep{source.type.dtype}));
  views.push_back(part->part == WeightPart::codes    ? stored->codes
                  : part->part == WeightPart::scales ? stored->scales
                                                     : *stored->zeros);
  return views;
}

std::vector<WeightView> DataLayout::views() const {
  std::vector<WeightView> views;
  for (const Entry& entry : entries_)
    for (WeightView& view : entry.views()) views.push_back(std::move(view));
  return views;
}

uint64_t DataLayout::file_bytes() const {
  // Offsets ascend, so the last entry ends the file.
  return entries_.empty() ? 0 : entries_.back().offset + entries_.back().bytes;
}

uint64_t DataLayout::weight_bytes() const {
  uint64_t total = 0;
  for (const Entry& entry : entries_)
    if (entry.literal.empty()) total += entry.bytes;
  return total;
}

}  // namespace moec
