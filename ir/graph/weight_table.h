// Location of each tensor of a checkpoint (file, byte range, type), and tensors that are derived
// from others. Metadata only.
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
  uint64_t bytes = 0;  // size when the headers were read; readers reject any other size
  // Identity when the headers were read; readers reject a changed file. Empty: only the size is
  // known.
  std::optional<FileIdentity> identity;
  bool operator==(const WeightFile&) const = default;
};

struct WeightTable {
  std::vector<WeightFile> files;
  std::map<std::string, TensorRange, std::less<>> tensors;
  // Tensors that the model needs in a different form than the files store, as views of `tensors`.
  // An entry hides the tensor of the same name.
  std::map<std::string, WeightView, std::less<>> derived;

  const TensorRange* find(std::string_view name) const {
    auto found = tensors.find(name);
    return found == tensors.end() ? nullptr : &found->second;
  }
  const WeightView* find_derived(std::string_view name) const {
    auto found = derived.find(name);
    return found == derived.end() ? nullptr : &found->second;
  }
  // Returns the derived view with this name, else a view of the tensor with this name, else empty.
  std::optional<WeightView> view(std::string_view name) const {
    if (const WeightView* made = find_derived(name)) return *made;
    const TensorRange* range = find(name);
    return range ? std::optional(tensor_view(std::string(name), range->type)) : std::nullopt;
  }
};

}  // namespace moec
