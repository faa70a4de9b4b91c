// Kernels for x86 with AVX2; the portable kernels process the last few elements. Only functions
// marked MOEC_AVX2 use these instructions, so the file can be part of a program that also runs on
// older CPUs. No multiply-add is fused: that would round differently from the portable kernels.
#include "backends/weights/encode/affine_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define MOEC_AVX2 __attribute__((target("avx2")))

namespace moec {
namespace {

constexpr size_t kLanes = 8;

// An AffineRule broadcast to all lanes.
struct Rule {
  __m256 inverse, low, high, zero;
};

MOEC_AVX2 Rule in_lanes(const AffineRule& rule) {
  return {_mm256_set1_ps(rule.inverse), _mm256_set1_ps(rule.low), _mm256_set1_ps(rule.high),
          _mm256_set1_ps(rule.zero)};
}

// As AffineRule::number(), but without rounding: add() rounds to floats, stored() to integers.
MOEC_AVX2 __m256 limited(__m256 values, const Rule& rule) {
  const __m256 goal = _mm256_add_ps(_mm256_mul_ps(values, rule.inverse), rule.zero);
  return _mm256_min_ps(_mm256_max_ps(goal, rule.low), rule.high);
}

MOEC_AVX2 float lowest(__m256 values) {
  const __m128 four = _mm_min_ps(_mm256_castps256_ps128(values), _mm256_extractf128_ps(values, 1));
  const __m128 two = _mm_min_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_min_ss(two, _mm_movehdup_ps(two)));
}

MOEC_AVX2 AffineExtent extent_of(const float* values, size_t count) {
  const size_t end = count / kLanes * kLanes;
  const __m256 sign = _mm256_set1_ps(-0.0f);
  // `low` and `minus_high` start at 0, because the extent includes 0. The maximum is the negated
  // minimum of the negated values, so lowest() reduces both.
  __m256 low = _mm256_setzero_ps(), minus_high = _mm256_setzero_ps();
  for (size_t i = 0; i < end; i += kLanes) {
    const __m256 more = _mm256_loadu_ps(values + i);
    low = _mm256_min_ps(low, more);
    minus_high = _mm256_min_ps(minus_high, _mm256_xor_ps(more, sign));
  }
  const AffineExtent rest = portable_affine().extent(values + end, count - end);
  return {std::min(rest.low, lowest(low)), std::max(rest.high, -lowest(minus_high))};
}

// Half of the lanes of AffineSums.
struct Sums {
  __m256 products, squares;
};

MOEC_AVX2 void add(Sums& sums, __m256 values, const Rule& rule) {
  const __m256 number =
      _mm256_round_ps(limited(values, rule), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m256 steps = _mm256_sub_ps(number, rule.zero);
  sums.products = _mm256_add_ps(sums.products, _mm256_mul_ps(steps, values));
  sums.squares = _mm256_add_ps(sums.squares, _mm256_mul_ps(steps, steps));
}

// Adds two (product, square) pairs in order, so that the sum equals that of the portable kernel.
MOEC_AVX2 void add_two(__m128d& total, __m128 pairs) {
  const __m256d wide = _mm256_cvtps_pd(pairs);
  total = _mm_add_pd(total, _mm256_castpd256_pd128(wide));
  total = _mm_add_pd(total, _mm256_extractf128_pd(wide, 1));
}

MOEC_AVX2 void add_total(__m128d& total, const Sums& sums) {
  // The interleaved lanes are 0, 1, 4, 5 and 2, 3, 6, 7. The four calls visit them as 0 … 7.
  const __m256 first = _mm256_unpacklo_ps(sums.products, sums.squares),
               second = _mm256_unpackhi_ps(sums.products, sums.squares);
  add_two(total, _mm256_castps256_ps128(first));
  add_two(total, _mm256_castps256_ps128(second));
  add_two(total, _mm256_extractf128_ps(first, 1));
  add_two(total, _mm256_extractf128_ps(second, 1));
}

// Adds the last `count` values and returns AffineSums::total().
MOEC_AVX2 AffineFit with_rest(const Sums& lower, const Sums& upper, const float* values,
                              size_t count, const AffineRule& rule) {
  AffineSums sums;
  _mm256_storeu_ps(sums.products.data(), lower.products);
  _mm256_storeu_ps(sums.products.data() + kLanes, upper.products);
  _mm256_storeu_ps(sums.squares.data(), lower.squares);
  _mm256_storeu_ps(sums.squares.data() + kLanes, upper.squares);
  for (size_t i = 0; i < count; ++i) sums.add(i, values[i], rule);
  return sums.total();
}

MOEC_AVX2 AffineFit fit_of(const float* values, size_t count, const AffineRule& rule) {
  const size_t end = count / AffineSums::kLanes * AffineSums::kLanes;
  const Rule lanes = in_lanes(rule);
  Sums lower{_mm256_setzero_ps(), _mm256_setzero_ps()}, upper = lower;
  for (size_t i = 0; i < end; i += AffineSums::kLanes) {
    add(lower, _mm256_loadu_ps(values + i), lanes);
    add(upper, _mm256_loadu_ps(values + i + kLanes), lanes);
  }
  if (end < count) return with_rest(lower, upper, values + end, count - end, rule);
  __m128d total = _mm_setzero_pd();
  add_total(total, lower);
  add_total(total, upper);
  return {_mm_cvtsd_f64(total), _mm_cvtsd_f64(_mm_unpackhi_pd(total, total))};
}

// Converts eight values to stored codes. Packing saturates, so the codes are masked first.
MOEC_AVX2 __m256i stored(const float* values, const Rule& rule, __m256i mask, __m256i turned) {
  const __m256i numbers = _mm256_cvtps_epi32(limited(_mm256_loadu_ps(values), rule));
  return _mm256_xor_si256(_mm256_and_si256(numbers, mask), turned);
}

MOEC_AVX2 void encode(const float* values, size_t count, const AffineRule& rule,
                      const AffineCodes& codes, uint8_t* to) {
  const size_t end = count / (4 * kLanes) * (4 * kLanes);
  const Rule lanes = in_lanes(rule);
  const __m256i mask = _mm256_set1_epi32(static_cast<int>(codes.mask())),
                turned = _mm256_set1_epi32(static_cast<int>(codes.turned())),
                order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  // Packing works within halves of 128 bits, so the even groups of four codes precede the odd ones.
  // `order` restores their sequence.
  for (size_t i = 0; i < end; i += 4 * kLanes) {
    const float* from = values + i;
    const __m256i first = _mm256_packus_epi32(stored(from, lanes, mask, turned),
                                              stored(from + kLanes, lanes, mask, turned)),
                  second = _mm256_packus_epi32(stored(from + 2 * kLanes, lanes, mask, turned),
                                               stored(from + 3 * kLanes, lanes, mask, turned));
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(first, second), order);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), bytes);
  }
  portable_affine().encode(values + end, count - end, rule, codes, to + end);
}

MOEC_AVX2 void decode(const uint8_t* stored, size_t count, const AffineCodes& codes, float scale,
                      int zero, float* to) {
  const size_t end = count / kLanes * kLanes;
  const __m256i turned = _mm256_set1_epi32(static_cast<int>(codes.turned())),
                zeros = _mm256_set1_epi32(zero);
  const __m128i above = _mm_cvtsi32_si128(32 - codes.bits);
  const __m256 scales = _mm256_set1_ps(scale);
  for (size_t i = 0; i < end; i += kLanes) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(stored + i));
    const __m256i wide = _mm256_xor_si256(_mm256_cvtepu8_epi32(bytes), turned);
    // The shifts left and right extend the sign of a code of `bits` bits.
    const __m256i numbers = _mm256_sra_epi32(_mm256_sll_epi32(wide, above), above);
    const __m256 steps = _mm256_cvtepi32_ps(_mm256_sub_epi32(numbers, zeros));
    _mm256_storeu_ps(to + i, _mm256_mul_ps(steps, scales));
  }
  portable_affine().decode(stored + end, count - end, codes, scale, zero, to + end);
}

}  // namespace

const AffineKernels* avx2_affine() {
  static constexpr AffineKernels kKernels = {"avx2", extent_of, fit_of, encode, decode};
  static const bool runs = __builtin_cpu_supports("avx2");
  return runs ? &kKernels : nullptr;
}

}  // namespace moec

#else

namespace moec {
const AffineKernels* avx2_affine() { return nullptr; }
}  // namespace moec

#endif
