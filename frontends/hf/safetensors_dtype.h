// The element types of safetensors files.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ir/graph/type.h"

namespace moec {

struct DiskDType {
  std::string_view name;
  uint64_t bits;
  std::optional<DType> ir;
};

// Null when the name is not known. The list of the format is open-ended.
const DiskDType* find_disk_dtype(std::string_view name);

}  // namespace moec
