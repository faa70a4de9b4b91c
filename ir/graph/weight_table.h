// The location of each tensor of a checkpoint: file, byte range and type, and how needed tensors
// are made of others. Metadata only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/regular_file.h"
#include "ir/graph/type.h"
#include "ir/graph/weight_view.h"

namespace moec {

struct TensorRange {
  uint32_t file = 0;    // index into WeightTable::files
  uint64_t offset = 0;  // bytes from the start of the file
  Type type;            // layout plain; bytes() is the length of the range
  bool operator==(const TensorRange&) const = default;
};

struct WeightFile {
  std::string path;
  uint64_t bytes = 0;  // size when the headers were read; readers refuse a file of another size
  // The file when its headers were read; readers refuse another one. Empty: only the size is known.
  std::optional<FileIdentity> identity;
  bool operator==(const WeightFile&) const = default;
};

struct WeightTable {
  std::vector<WeightFile> files;
  std::map<std::string, TensorRange, std::less<>> tensors;
  // What a model needs and the files hold in another form, as views of `tensors`. A name here hides
  // a tensor of the same name.
  std::map<std::string, WeightView, std::less<>> derived;

  const TensorRange* find(std::string_view name) const {
    auto found = tensors.find(name);
    return found == tensors.end() ? nullptr : &found->second;
  }
  const WeightView* find_derived(std::string_view name) const {
    auto found = derived.find(name);
    return found == derived.end() ? nullptr : &found->second;
  }
};

}  // namespace moec
