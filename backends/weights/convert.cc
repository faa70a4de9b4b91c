#include "backends/weights/convert.h"

#include <cstring>

#include "backends/weights/convert_kernels.h"
#include "backends/weights/payload_bits.h"
#include "ir/invariant.h"

namespace moec {

const ConvertKernels& best_kernels() {
  static const ConvertKernels& best = avx2_kernels() ? *avx2_kernels() : portable_kernels();
  return best;
}

void decode(DType dtype, const std::byte* from, size_t count, float* to) {
  switch (dtype) {
    case DType::f32:
      std::memcpy(to, from, count * sizeof(float));
      return;
    case DType::f16:
      return best_kernels().decode_f16(from, count, to);
    case DType::bf16:
      return best_kernels().decode_bf16(from, count, to);
    case DType::f8_e4m3:
      return best_kernels().decode_f8_e4m3(from, count, to);
    case DType::i64:
      return decode_each<int64_t>(from, count, to, [](int64_t v) { return static_cast<float>(v); });
    case DType::i32:
      return decode_each<int32_t>(from, count, to, [](int32_t v) { return static_cast<float>(v); });
    case DType::u8:
      return decode_each<uint8_t>(from, count, to, [](uint8_t v) { return static_cast<float>(v); });
    case DType::boolean:
      return decode_each<uint8_t>(from, count, to, [](uint8_t v) { return v ? 1.0f : 0.0f; });
  }
}

uint64_t encode(DType dtype, const float* from, size_t count, std::byte* to) {
  if (dtype == DType::f16) return best_kernels().encode_f16(from, count, to);
  if (dtype == DType::bf16) return best_kernels().encode_bf16(from, count, to);
  MOEC_CHECK(dtype == DType::f32, "no conversion from f32 to {}", dtype_name(dtype));
  std::memcpy(to, from, count * sizeof(float));
  return 0;
}

uint64_t scale(float factor, float* values, size_t count) {
  return best_kernels().scale(factor, values, count);
}

uint64_t count_nans(DType dtype, const std::byte* values, size_t count) {
  if (dtype == DType::f32) return best_kernels().count_from_32(values, count, 0x7f800001u);
  if (dtype == DType::f16) return best_kernels().count_from_16(values, count, 0x7c01u);
  if (dtype == DType::bf16) return best_kernels().count_from_16(values, count, 0x7f81u);
  if (dtype == DType::f8_e4m3) return count_from<uint8_t>(values, count, 0x7fu);
  return 0;
}

uint64_t count_nonfinite(DType dtype, const std::byte* values, size_t count) {
  if (dtype == DType::f32) return best_kernels().count_from_32(values, count, 0x7f800000u);
  if (dtype == DType::f16) return best_kernels().count_from_16(values, count, 0x7c00u);
  if (dtype == DType::bf16) return best_kernels().count_from_16(values, count, 0x7f80u);
  return count_nans(dtype, values, count);
}

}  // namespace moec
