// The weights of a data file and their offsets. Each distinct weight, identified by weight_key(),
// is stored once, regardless of how many ops and token widths use it. An encoded weight has one
// entry per part, codes first, unless the format stores scales before the codes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph/ops.h"

namespace moec {

// Layout rules of a format's data files.
struct DataFormat {
  uint64_t alignment = 1;   // alignment of each entry, or of its lead-in
  uint64_t parameters = 0;  // alignment of scales, zeros and tables; 0: `alignment`
  uint64_t file_head = 0;   // bytes before the first entry
  uint64_t entry_lead = 0;  // bytes of the lead-in directly before each entry's data
};

// Identifies a weight: the text of its view, and of its encoding unless that is plain.
std::string weight_key(const Weight& weight);

class DataLayout {
 public:
  // A weight whose values or parts are in the file.
  struct Source {
    Weight weight;
    Type type;  // type of the weight's values
    CodeForm form = CodeForm::signed_codes;
  };

  struct Entry {
    std::string key;                 // weight_key(), or a literal's key, which no weight has
    std::string name;                // name of the first tensor that uses the entry
    DType dtype = DType::f32;        // element type of the entry
    Source source;                   // unset for a literal
    std::optional<StoredPart> part;  // part of an encoded weight
    std::string literal;             // the bytes of a literal; empty for a weight
    uint64_t offset = 0, bytes = 0;  // extent of the data, without the lead-in
    uint64_t alignment = 1;          // alignment of `offset`
    bool precedes_codes = false;     // scales that are written before the codes

    // True if writing this entry reads the weight's values. Scales, zeros and tables follow from
    // the codes' pass, unless they precede the codes.
    bool reads() const {
      return literal.empty() && (!part || part->part == WeightPart::codes || precedes_codes);
    }
    // The views that writing this entry reads, in order: the weight's values if reads(), then
    // copied codes or scales.
    std::vector<WeightView> views() const;
  };

  explicit DataLayout(DataFormat format) : format_(format) {}

  // Adds a weight. A weight that was added before keeps its first name. `scales` is the element
  // type in which scales are stored, in which each must be exact; unset: that of the weight.
  void add(const Weight& weight, const Type& type, const std::string& name,
           CodeForm form = CodeForm::signed_codes, std::optional<DType> scales = {});
  // Add one part of an encoded weight, whose codes are computed. Scales need a layout of their own,
  // which is written first; it reads the weight only for the scales.
  void add_codes(const Weight& weight, const Type& type, const std::string& name);
  void add_scales(const Weight& weight, const Type& type, const std::string& name);
  // Adds elements that do not come from a checkpoint, as the bytes to write.
  void add_literal(std::string bytes, DType dtype, const std::string& name);
  // Aligns the data of the next entry to `alignment`, a power of two and a multiple of the format's
  // alignment and lead-in. Has no effect if the next weight was added before.
  void align_next(uint64_t alignment) { next_alignment_ = alignment; }
  // The weight or literal must have been added and must have the part.
  const Entry& find(const Weight& weight) const;  // plain
  const Entry& find(const Weight& weight, WeightPart part) const;
  const Entry& find_literal(const std::string& bytes, DType dtype) const;

  const std::vector<Entry>& entries() const { return entries_; }
  std::vector<WeightView> views() const;  // of all entries, in order
  bool empty() const { return entries_.empty(); }
  uint64_t file_bytes() const;
  uint64_t weight_bytes() const;  // excludes heads, gaps and literals

 private:
  void add_part(const Weight& weight, const Type& type, const std::string& name, WeightPart part);
  void place(Entry entry, const std::string& place_key);
  const Entry& find_key(const std::string& place_key) const;

  uint64_t alignment_of(const Entry& entry) const;

  DataFormat format_;
  uint64_t next_alignment_ = 0;  // 0: the format's own
  std::vector<Entry> entries_;
  std::map<std::string, size_t> by_key_;
};

}  // namespace moec
