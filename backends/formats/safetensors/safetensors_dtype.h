// The element types of safetensors files.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ir/graph/type.h"

namespace moec {

struct DiskDType {
  std::string_view name;    // as in the header: "BF16"
  uint64_t bits;            // of one element
  std::optional<DType> ir;  // nullopt: not supported by the IR
};

// Returns null if the name is unknown.
const DiskDType* find_disk_dtype(std::string_view name);

}  // namespace moec
