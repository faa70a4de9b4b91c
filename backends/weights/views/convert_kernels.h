// Kernels of convert.h, one version per vector target of Highway. All versions return the same bits
// and counts.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moec {

struct ConvertKernels {
  const char* name;
  using Decode = void (*)(const std::byte* from, size_t count, float* to);
  Decode decode_f16, decode_bf16, decode_f8_e4m3;
  // Return the number of finite values that became infinite.
  using Encode = uint64_t (*)(const float* from, size_t count, std::byte* to);
  Encode encode_f16, encode_bf16;
  uint64_t (*scale)(float factor, float* values, size_t count);
  uint64_t (*multiply)(const float* factors, float* values, size_t count);
  // Count the 2-byte or 4-byte elements whose bits, without the sign, are at least `least` (> 0).
  uint64_t (*count_from_16)(const std::byte* values, size_t count, uint16_t least);
  uint64_t (*count_from_32)(const std::byte* values, size_t count, uint32_t least);
};

// Returns the scalar version, which is the definition of the others.
const ConvertKernels& portable_kernels();
// Returns the version with the widest vectors of this CPU.
const ConvertKernels& best_kernels();

}  // namespace moec
