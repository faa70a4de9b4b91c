// The weights of a data file and their offsets. Each distinct weight (by its text) is stored once,
// however many ops and token widths use it. An encoded weight is several entries, one for each of
// its parts, the codes first.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph/ops.h"

namespace moec {

// How a format lays out its data files.
struct DataFormat {
  uint64_t alignment = 1;   // of each entry: of its lead-in, where there is one
  uint64_t parameters = 0;  // the same of scales, zeros and tables; 0: as all others
  uint64_t file_head = 0;   // bytes before the first entry
  uint64_t entry_lead = 0;  // bytes of lead-in right before each entry's data
};

// The text of a weight: its view, and its encoding unless that is plain.
std::string weight_key(const Weight& weight);

class DataLayout {
 public:
  // A weight whose values or parts lie in the file.
  struct Source {
    Weight weight;
    Type type;  // of its values
    CodeForm form = CodeForm::signed_codes;
  };

  struct Entry {
    std::string key;                 // of the weight, or one that no weight has
    std::string name;                // of the first tensor that shows it
    DType dtype = DType::f32;        // of its elements
    Source source;                   // unless the bytes stand in `literal`
    std::optional<StoredPart> part;  // of an encoded weight
    std::string literal;             // the data itself; empty for a weight
    uint64_t offset = 0, bytes = 0;  // of the data, without the lead-in
    uint64_t alignment = 1;          // of the offset

    // The values of the weight are read for this entry, not for an earlier one.
    bool reads() const { return literal.empty() && (!part || part->part == WeightPart::codes); }
    // What is read for this entry, in this order: the values of the weight if it reads, then codes
    // or scales that are copied.
    std::vector<WeightView> views() const;
  };

  explicit DataLayout(DataFormat format) : format_(format) {}

  // Adds a weight of this type. One that has been added before keeps its first name.
  void add(const Weight& weight, const Type& type, const std::string& name,
           CodeForm form = CodeForm::signed_codes);
  // The same for elements that come from no checkpoint, as the bytes that the file shall hold.
  void add_literal(std::string bytes, DType dtype, const std::string& name);
  // The data of the next entry begins at a multiple of `alignment`, a power of two that the
  // format's own alignment and lead-in divide. Has no effect where the next weight has been added
  // before.
  void align_next(uint64_t alignment) { next_alignment_ = alignment; }
  // The weight or literal must have been added; the part is one that it has.
  const Entry& find(const Weight& weight) const;  // plain
  const Entry& find(const Weight& weight, WeightPart part) const;
  const Entry& find_literal(const std::string& bytes, DType dtype) const;

  const std::vector<Entry>& entries() const { return entries_; }
  std::vector<WeightView> views() const;  // of all entries, in their order
  bool empty() const { return entries_.empty(); }
  uint64_t file_bytes() const;
  uint64_t weight_bytes() const;  // without heads, gaps and literals

 private:
  void place(Entry entry, const std::string& place_key);
  const Entry& find_key(const std::string& place_key) const;

  uint64_t alignment_of(const Entry& entry) const;

  DataFormat format_;
  uint64_t next_alignment_ = 0;  // 0: that of the format
  std::vector<Entry> entries_;
  std::map<std::string, size_t> by_key_;
};

}  // namespace moec
