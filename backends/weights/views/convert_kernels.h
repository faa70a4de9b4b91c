// The loops of convert.h, in one version for each kind of CPU. All versions return the same bits
// and the same counts.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moec {

struct ConvertKernels {
  const char* name;
  using Decode = void (*)(const std::byte* from, size_t count, float* to);
  Decode decode_f16, decode_bf16, decode_f8_e4m3;
  // `values` holds the value of each pattern of four bits. The low four bits of a byte come first.
  void (*decode_nibbles)(const float* values, const std::byte* from, size_t bytes, float* to);
  // Return how many finite values became infinite.
  using Encode = uint64_t (*)(const float* from, size_t count, std::byte* to);
  Encode encode_f16, encode_bf16;
  uint64_t (*scale)(float factor, float* values, size_t count);
  uint64_t (*multiply)(const float* factors, float* values, size_t count);
  // How many elements of 2 or 4 bytes have bits, without the sign, of at least `least` (> 0).
  uint64_t (*count_from_16)(const std::byte* values, size_t count, uint16_t least);
  uint64_t (*count_from_32)(const std::byte* values, size_t count, uint32_t least);
};

const ConvertKernels& portable_kernels();
// Null where this CPU has no AVX2 and F16C, or no x86 at all.
const ConvertKernels* avx2_kernels();
// The fastest version that this CPU can run.
const ConvertKernels& best_kernels();

}  // namespace moec
