// Kernels for x86 with AVX2 and F16C. They process eight elements at a time; the portable kernels
// process the rest. Only functions marked MOEC_AVX2 use these instructions, so the file can be part
// of a program that also runs on older CPUs.
#include "backends/weights/views/convert_kernels.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#include "backends/weights/views/pack_bits.h"

#define MOEC_AVX2 __attribute__((target("avx2,f16c")))

namespace moec {
namespace {

constexpr size_t kLanes = 8;

size_t whole_lanes(size_t count) { return count / kLanes * kLanes; }

MOEC_AVX2 __m128i load_8x16(const std::byte* from, size_t index) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 2 * index));
}

MOEC_AVX2 void store_8x16(std::byte* to, size_t index, __m128i bits) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 2 * index), bits);
}

MOEC_AVX2 __m256i magnitude_of(__m256 values) {
  return _mm256_and_si256(_mm256_castps_si256(values), _mm256_set1_epi32(0x7fffffff));
}

// Narrows 32-bit lanes, each of at most 16 bits or all ones, to 16-bit lanes.
MOEC_AVX2 __m128i narrow_lanes(__m256i bits) {
  return _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
}
MOEC_AVX2 __m128i narrow_mask(__m256i mask) {
  return _mm_packs_epi32(_mm256_castsi256_si128(mask), _mm256_extracti128_si256(mask, 1));
}

MOEC_AVX2 uint64_t count_set(__m128i mask_of_16) {
  const auto bytes = static_cast<unsigned>(_mm_movemask_epi8(mask_of_16));
  return bytes == 0 ? 0 : static_cast<uint64_t>(__builtin_popcount(bytes)) / 2;
}

// Returns true if all magnitudes are below a limit. Most elements are finite, so testing eight at
// once lets callers skip the handling of infinities and NaNs.
MOEC_AVX2 bool all_below(__m128i bits, int16_t limit) {
  const __m128i magnitude = _mm_and_si128(bits, _mm_set1_epi16(0x7fff));
  return _mm_movemask_epi8(_mm_cmplt_epi16(magnitude, _mm_set1_epi16(limit))) == 0xffff;
}

// Returns the lanes in which a finite value became `infinity`.
MOEC_AVX2 __m128i overflowed(__m256 values, __m128i bits, int16_t infinity) {
  const __m256i finite = _mm256_cmpgt_epi32(_mm256_set1_epi32(0x7f800000), magnitude_of(values));
  const __m128i unsigned_bits = _mm_and_si128(bits, _mm_set1_epi16(0x7fff));
  return _mm_and_si128(narrow_mask(finite),
                       _mm_cmpeq_epi16(unsigned_bits, _mm_set1_epi16(infinity)));
}

// The CPU's conversion turns signalling NaNs into quiet ones. The definition (ir/graph/scalar.h)
// preserves their bits, so restore them.
MOEC_AVX2 void decode_f16(const std::byte* from, size_t count, float* to) {
  const size_t end = whole_lanes(count);
  for (size_t i = 0; i < end; i += kLanes) {
    const __m128i bits = load_8x16(from, i);
    if (all_below(bits, 0x7c00)) {
      _mm256_storeu_ps(to + i, _mm256_cvtph_ps(bits));
      continue;
    }
    const __m256i wide = _mm256_cvtepu16_epi32(bits);
    const __m256i magnitude =
        _mm256_slli_epi32(_mm256_and_si256(wide, _mm256_set1_epi32(0x7fff)), 13);
    const __m256i sign = _mm256_slli_epi32(_mm256_and_si256(wide, _mm256_set1_epi32(0x8000)), 16);
    const __m256i special =
        _mm256_or_si256(sign, _mm256_or_si256(magnitude, _mm256_set1_epi32(0x7f800000)));
    const __m256i is_special = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x0f7fffff));
    _mm256_storeu_ps(to + i, _mm256_blendv_ps(_mm256_cvtph_ps(bits), _mm256_castsi256_ps(special),
                                              _mm256_castsi256_ps(is_special)));
  }
  portable_kernels().decode_f16(from + 2 * end, count - end, to + end);
}

MOEC_AVX2 void decode_bf16(const std::byte* from, size_t count, float* to) {
  const size_t end = whole_lanes(count);
  for (size_t i = 0; i < end; i += kLanes) {
    const __m256i wide = _mm256_cvtepu16_epi32(load_8x16(from, i));
    _mm256_storeu_ps(to + i, _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16)));
  }
  portable_kernels().decode_bf16(from + 2 * end, count - end, to + end);
}

MOEC_AVX2 void decode_f8_e4m3(const std::byte* from, size_t count, float* to) {
  const float* table = f8_e4m3_table().data();
  const size_t end = whole_lanes(count);
  for (size_t i = 0; i < end; i += kLanes) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i));
    // The table has 1 KiB, which fits in the L1 cache.
    _mm256_storeu_ps(to + i, _mm256_i32gather_ps(table, _mm256_cvtepu8_epi32(bytes), 4));
  }
  portable_kernels().decode_f8_e4m3(from + end, count - end, to + end);
}

// Each 32 bits contain eight 4-bit numbers, which index a table of 16 values. A permutation looks
// up the low three bits of a lane in one half of the table. A blend selects the half by the highest
// bit of the lane, so the fourth bit is moved there.
MOEC_AVX2 void decode_nibbles(const float* values, const std::byte* from, size_t bytes, float* to) {
  const __m256 low = _mm256_loadu_ps(values), high = _mm256_loadu_ps(values + kLanes);
  const __m256i shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
  const size_t words = bytes / sizeof(int32_t), end = words * sizeof(int32_t);
  for (size_t i = 0; i < words; ++i) {
    const __m256i bits = _mm256_srlv_epi32(_mm256_set1_epi32(load<int32_t>(from, i)), shifts);
    const __m256 fourth = _mm256_castsi256_ps(_mm256_slli_epi32(bits, 28));
    _mm256_storeu_ps(to + i * kLanes,
                     _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, bits),
                                      _mm256_permutevar8x32_ps(high, bits), fourth));
  }
  portable_kernels().decode_nibbles(values, from + end, bytes - end, to + 2 * end);
}

// The CPU's conversion keeps part of a NaN's bits. The definition (ir/graph/scalar.h) has a single
// NaN per sign, so replace every NaN by that one.
MOEC_AVX2 uint64_t encode_f16(const float* from, size_t count, std::byte* to) {
  const size_t end = whole_lanes(count);
  uint64_t overflows = 0;
  for (size_t i = 0; i < end; i += kLanes) {
    const __m256 values = _mm256_loadu_ps(from + i);
    const __m128i bits = _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT);
    store_8x16(to, i, bits);
    if (all_below(bits, 0x7c00)) continue;
    const __m256 is_nan = _mm256_cmp_ps(values, values, _CMP_UNORD_Q);
    const __m128i nan =
        _mm_or_si128(_mm_and_si128(bits, _mm_set1_epi16(INT16_MIN)), _mm_set1_epi16(0x7e00));
    store_8x16(to, i, _mm_blendv_epi8(bits, nan, narrow_mask(_mm256_castps_si256(is_nan))));
    overflows += count_set(overflowed(values, bits, 0x7c00));
  }
  return overflows + portable_kernels().encode_f16(from + end, count - end, to + 2 * end);
}

MOEC_AVX2 uint64_t encode_bf16(const float* from, size_t count, std::byte* to) {
  const size_t end = whole_lanes(count);
  uint64_t overflows = 0;
  for (size_t i = 0; i < end; i += kLanes) {
    const __m256 values = _mm256_loadu_ps(from + i);
    const __m256i magnitude = magnitude_of(values);
    const __m256i upper = _mm256_srli_epi32(magnitude, 16);
    const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
    // Round to nearest, ties to even: adds half a unit, less one if the last kept bit is 0.
    const __m256i half = _mm256_add_epi32(_mm256_set1_epi32(0x7fff), odd);
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(magnitude, half), 16);
    const __m256i nan = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
    const __m256i is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
    const __m256i sign = _mm256_and_si256(_mm256_srli_epi32(_mm256_castps_si256(values), 16),
                                          _mm256_set1_epi32(0x8000));
    const __m128i bits =
        narrow_lanes(_mm256_or_si256(sign, _mm256_blendv_epi8(rounded, nan, is_nan)));
    store_8x16(to, i, bits);
    overflows += count_set(overflowed(values, bits, 0x7f80));
  }
  return overflows + portable_kernels().encode_bf16(from + end, count - end, to + 2 * end);
}

// Multiplies eight values in place. Returns the number of finite ones that became infinite.
MOEC_AVX2 uint64_t multiply_lanes(float* values, __m256 factors) {
  const __m256i infinity = _mm256_set1_epi32(0x7f800000);
  const __m256 before = _mm256_loadu_ps(values);
  const __m256 after = _mm256_mul_ps(before, factors);
  _mm256_storeu_ps(values, after);
  const __m256i lanes = _mm256_and_si256(_mm256_cmpgt_epi32(infinity, magnitude_of(before)),
                                         _mm256_cmpeq_epi32(infinity, magnitude_of(after)));
  return count_set(narrow_mask(lanes));
}

MOEC_AVX2 uint64_t scale(float factor, float* values, size_t count) {
  const size_t end = whole_lanes(count);
  uint64_t overflows = 0;
  for (size_t i = 0; i < end; i += kLanes)
    overflows += multiply_lanes(values + i, _mm256_set1_ps(factor));
  return overflows + portable_kernels().scale(factor, values + end, count - end);
}

MOEC_AVX2 uint64_t multiply(const float* factors, float* values, size_t count) {
  const size_t end = whole_lanes(count);
  uint64_t overflows = 0;
  for (size_t i = 0; i < end; i += kLanes)
    overflows += multiply_lanes(values + i, _mm256_loadu_ps(factors + i));
  return overflows + portable_kernels().multiply(factors + end, values + end, count - end);
}

MOEC_AVX2 uint64_t count_from_16(const std::byte* values, size_t count, uint16_t least) {
  const size_t end = count / (2 * kLanes) * (2 * kLanes);
  // AVX2 has no "greater or equal" for signed integers, so `least` − 1 is the limit.
  const __m256i below = _mm256_set1_epi16(static_cast<int16_t>(least - 1));
  uint64_t found = 0;
  for (size_t i = 0; i < end; i += 2 * kLanes) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values + 2 * i));
    const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi16(0x7fff));
    const auto mask =
        static_cast<unsigned>(_mm256_movemask_epi8(_mm256_cmpgt_epi16(magnitude, below)));
    if (mask != 0) found += static_cast<uint64_t>(__builtin_popcount(mask)) / 2;
  }
  return found + portable_kernels().count_from_16(values + 2 * end, count - end, least);
}

MOEC_AVX2 uint64_t count_from_32(const std::byte* values, size_t count, uint32_t least) {
  const size_t end = whole_lanes(count);
  const __m256i below = _mm256_set1_epi32(static_cast<int32_t>(least - 1));
  uint64_t found = 0;
  for (size_t i = 0; i < end; i += kLanes) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values + 4 * i));
    const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    found += count_set(narrow_mask(_mm256_cmpgt_epi32(magnitude, below)));
  }
  return found + portable_kernels().count_from_32(values + 4 * end, count - end, least);
}

// Only newer compilers know the name of this feature in __builtin_cpu_supports(), so query CPUID.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

}  // namespace

const ConvertKernels* avx2_kernels() {
  static constexpr ConvertKernels kKernels = {
      "avx2",      decode_f16, decode_bf16, decode_f8_e4m3, decode_nibbles, encode_f16,
      encode_bf16, scale,      multiply,    count_from_16,  count_from_32};
  static const bool runs = __builtin_cpu_supports("avx2") && has_f16c();
  return runs ? &kKernels : nullptr;
}

}  // namespace moec

#else

namespace moec {
const ConvertKernels* avx2_kernels() { return nullptr; }
}  // namespace moec

#endif
