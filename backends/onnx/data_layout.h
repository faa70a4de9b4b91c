// Which weights an external data file holds, and where. Each distinct view (by its text) is stored
// once, however many ops and token widths use it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/weight_view.h"

namespace moec {

// Memory-mapping a tensor by itself needs this granularity on Windows (64 KiB; elsewhere a page of
// 4 KiB is enough). See onnxruntime issue 21195.
inline constexpr uint64_t kDataAlignment = 64 * 1024;

class DataLayout {
 public:
  struct Entry {
    std::string key;   // the view's text
    std::string name;  // of the first initializer that shows it
    WeightView view;
    uint64_t offset = 0, bytes = 0;
  };

  // Adds the view unless it is there. `name` is used only then.
  void add(const WeightView& view, uint64_t bytes, const std::string& name);
  // The view must have been added.
  const Entry& find(const WeightView& view) const;

  const std::vector<Entry>& entries() const { return entries_; }
  bool empty() const { return entries_.empty(); }
  uint64_t file_bytes() const;
  uint64_t weight_bytes() const;  // without the gaps

 private:
  std::vector<Entry> entries_;
  std::map<std::string, size_t> by_key_;
};

}  // namespace moec
