// A tensor of a checkpoint that stores a needed tensor or a part of it.
#pragma once

#include <optional>

#include "models/tensors/needed_tensor.h"

namespace moec {

inline constexpr int64_t kMxBlock = 32;       // elements per scale: OCP Microscaling Formats 1.0
inline constexpr int64_t kNvBlock = 16;       // elements per scale of NVFP4
inline constexpr int64_t kNestedBlock = 256;  // factors per nested factor of bitsandbytes

struct StoredTensor {
  NeededTensor tensor;
  std::optional<DType> dtype;  // required type; absent: f32, f16 or bf16
  bool operator==(const StoredTensor&) const = default;
};

}  // namespace moec
