// The weights of a data file and their offsets. Each distinct view (by its text) is stored once,
// however many ops and token widths use it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/graph/weight_view.h"

namespace moec {

// How a format lays out its data files.
struct DataFormat {
  uint64_t alignment = 1;   // of each entry: of its lead-in, where there is one
  uint64_t file_head = 0;   // bytes before the first entry
  uint64_t entry_lead = 0;  // bytes of lead-in right before each entry's data
};

class DataLayout {
 public:
  struct Entry {
    std::string key;                 // the view's text
    std::string name;                // of the first tensor that shows it
    DType dtype = DType::f32;        // of its elements
    WeightView view;                 // unless the bytes stand in `literal`
    std::string literal;             // the data itself; empty for a view
    uint64_t offset = 0, bytes = 0;  // of the data, without the lead-in
  };

  explicit DataLayout(DataFormat format) : format_(format) {}

  // Adds a view that delivers this type. A view that has been added before keeps its first name.
  void add(const WeightView& view, const Type& type, const std::string& name);
  // The same for elements that come from no checkpoint, as the bytes that the file shall hold.
  void add_literal(std::string bytes, DType dtype, const std::string& name);
  // The view or literal must have been added.
  const Entry& find(const WeightView& view) const;
  const Entry& find_literal(const std::string& bytes, DType dtype) const;

  const std::vector<Entry>& entries() const { return entries_; }
  std::vector<WeightView> views() const;  // of the entries that are no literals, in their order
  bool empty() const { return entries_.empty(); }
  uint64_t file_bytes() const;
  uint64_t weight_bytes() const;  // of the views: without heads, gaps and literals

 private:
  void place(Entry entry);
  const Entry& find_key(const std::string& key) const;

  DataFormat format_;
  std::vector<Entry> entries_;
  std::map<std::string, size_t> by_key_;
};

}  // namespace moec
