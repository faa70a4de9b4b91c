// Which weights a data file holds, and where. Each distinct view (by its text) is stored once,
// however many ops and token widths use it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/weight_view.h"

namespace moec {

// How a data file is laid out.
struct DataFormat {
  uint64_t alignment = 1;   // of each entry: of its lead-in, where there is one
  uint64_t file_head = 0;   // bytes before the first entry
  uint64_t entry_lead = 0;  // bytes of lead-in right before each entry's data
};

class DataLayout {
 public:
  struct Entry {
    std::string key;   // the view's text
    std::string name;  // of the first tensor that shows it
    WeightView view;
    uint64_t offset = 0, bytes = 0;  // of the data, without the lead-in
  };

  explicit DataLayout(DataFormat format) : format_(format) {}

  // Adds the view unless it is there. `name` is used only then.
  void add(const WeightView& view, uint64_t bytes, const std::string& name);
  // The view must have been added.
  const Entry& find(const WeightView& view) const;

  const std::vector<Entry>& entries() const { return entries_; }
  bool empty() const { return entries_.empty(); }
  uint64_t file_bytes() const;
  uint64_t weight_bytes() const;  // without heads and gaps

 private:
  DataFormat format_;
  std::vector<Entry> entries_;
  std::map<std::string, size_t> by_key_;
};

}  // namespace moec
