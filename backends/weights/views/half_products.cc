#include "backends/weights/views/half_products.h"

#include "backends/weights/views/convert_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

#include "ir/graph/scalar.h"

#define MOEC_AVX2 __attribute__((target("avx2,f16c")))

namespace moec {
namespace {

struct F16 {
  MOEC_AVX2 static __m256 eight(__m128i bits) { return _mm256_cvtph_ps(bits); }
  static float one(uint16_t bits) { return f32_from_f16(bits); }
};

struct Bf16 {
  MOEC_AVX2 static __m256 eight(__m128i bits) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static float one(uint16_t bits) { return f32_from_bf16(bits); }
};

const std::byte* at(const std::byte* w, int64_t index) { return w + 2 * index; }

template <class Half>
float one_at(const std::byte* w, int64_t index) {
  uint16_t bits = 0;
  std::memcpy(&bits, at(w, index), sizeof bits);
  return Half::one(bits);
}

template <class Half>
MOEC_AVX2 __m256 eight_at(const std::byte* w, int64_t index) {
  return Half::eight(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at(w, index))));
}

template <class Half>
MOEC_AVX2 __m128 four_at(const std::byte* w, int64_t index) {
  return _mm256_castps256_ps128(
      Half::eight(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at(w, index)))));
}

MOEC_AVX2 float sum_of_four(__m128 sums) {
  const __m128 pairs = _mm_add_ps(sums, _mm_movehl_ps(sums, sums));
  return _mm_cvtss_f32(_mm_add_ss(pairs, _mm_shuffle_ps(pairs, pairs, 1)));
}

// Processes several rows at once: their sums are independent and hide the latency of additions.
template <class Half, size_t kRows>
MOEC_AVX2 void dot_few_rows(const std::byte* w, int64_t inner, const float* x, float* out) {
  __m128 sums[kRows];
  for (size_t r = 0; r < kRows; ++r) sums[r] = _mm_setzero_ps();
  int64_t i = 0;
  for (; i + 8 <= inner; i += 8) {
    const __m256 factors = _mm256_loadu_ps(x + i);
    for (size_t r = 0; r < kRows; ++r) {
      const auto from = static_cast<int64_t>(r) * inner + i;
      const __m256 products = _mm256_mul_ps(eight_at<Half>(w, from), factors);
      // Four sums per row, not eight: this is the order of Eigen's packets of four floats.
      sums[r] = _mm_add_ps(sums[r], _mm256_castps256_ps128(products));
      sums[r] = _mm_add_ps(sums[r], _mm256_extractf128_ps(products, 1));
    }
  }
  for (; i + 4 <= inner; i += 4)
    for (size_t r = 0; r < kRows; ++r)
      sums[r] = _mm_add_ps(
          sums[r],
          _mm_mul_ps(four_at<Half>(w, static_cast<int64_t>(r) * inner + i), _mm_loadu_ps(x + i)));
  for (size_t r = 0; r < kRows; ++r) {
    float sum = sum_of_four(sums[r]);
    for (int64_t rest = i; rest < inner; ++rest)
      sum += one_at<Half>(w, static_cast<int64_t>(r) * inner + rest) * x[rest];
    out[r] += sum;
  }
}

template <class Half>
MOEC_AVX2 void dot_rows(const std::byte* w, int64_t rows, int64_t inner, const float* x,
                        float* out) {
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) dot_few_rows<Half, 4>(at(w, row * inner), inner, x, out + row);
  for (; row < rows; ++row) dot_few_rows<Half, 1>(at(w, row * inner), inner, x, out + row);
}

// Processes 8 · kEights columns.
template <class Half, size_t kEights>
MOEC_AVX2 void add_rows_of(const std::byte* w, int64_t rows, int64_t stride, const float* x,
                           float* out) {
  __m256 sums[kEights];
  for (size_t e = 0; e < kEights; ++e) sums[e] = _mm256_setzero_ps();
  for (int64_t i = 0; i < rows; ++i) {
    const __m256 factor = _mm256_set1_ps(x[i]);
    // Each column has a separate sum, so vectors of eight do not change the order of additions. No
    // multiply-add is fused.
    for (size_t e = 0; e < kEights; ++e)
      sums[e] = _mm256_add_ps(
          _mm256_mul_ps(eight_at<Half>(w, i * stride + static_cast<int64_t>(8 * e)), factor),
          sums[e]);
  }
  for (size_t e = 0; e < kEights; ++e)
    _mm256_storeu_ps(out + 8 * e, _mm256_add_ps(sums[e], _mm256_loadu_ps(out + 8 * e)));
}

template <class Half>
MOEC_AVX2 void add_rows(const std::byte* w, int64_t rows, int64_t stride, int64_t columns,
                        const float* x, float* out) {
  int64_t c = 0;
  for (; c + 32 <= columns; c += 32) add_rows_of<Half, 4>(at(w, c), rows, stride, x, out + c);
  for (; c + 8 <= columns; c += 8) add_rows_of<Half, 1>(at(w, c), rows, stride, x, out + c);
  for (; c < columns; ++c) {
    float sum = 0;
    for (int64_t i = 0; i < rows; ++i) sum += one_at<Half>(w, i * stride + c) * x[i];
    out[c] += sum;
  }
}

}  // namespace

const HalfProducts* half_products(DType dtype) {
  static constexpr HalfProducts kF16 = {dot_rows<F16>, add_rows<F16>};
  static constexpr HalfProducts kBf16 = {dot_rows<Bf16>, add_rows<Bf16>};
  if (avx2_kernels() == nullptr) return nullptr;
  if (dtype == DType::f16) return &kF16;
  return dtype == DType::bf16 ? &kBf16 : nullptr;
}

}  // namespace moec

#else

namespace moec {
const HalfProducts* half_products(DType) { return nullptr; }
}  // namespace moec

#endif
