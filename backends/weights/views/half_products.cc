#include "backends/weights/views/half_products.h"

#include <cstring>

#include "ir/graph/scalar.h"

// Highway compiles this file once per vector target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/weights/views/half_products.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace moec::HWY_NAMESPACE {
namespace {

#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86

namespace hn = hwy::HWY_NAMESPACE;
using Four = hn::Full128<float>;
using Eight = hn::Full256<float>;

struct F16 {
  template <class D>
  static hn::Vec<D> load(D d, const uint16_t* bits) {
    const hn::Rebind<uint16_t, D> narrow;
    const hn::Rebind<hwy::float16_t, D> half;
    return hn::PromoteTo(d, hn::BitCast(half, hn::LoadU(narrow, bits)));
  }
  static float one(uint16_t bits) { return f32_from_f16(bits); }
};

struct Bf16 {
  template <class D>
  static hn::Vec<D> load(D d, const uint16_t* bits) {
    const hn::Rebind<uint16_t, D> narrow;
    const hn::Rebind<uint32_t, D> wide;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, hn::LoadU(narrow, bits))));
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

template <class Half, class D>
hn::Vec<D> load_at(D d, const std::byte* w, int64_t index) {
  return Half::load(d, reinterpret_cast<const uint16_t*>(at(w, index)));
}

float sum_of_four(hn::Vec<Four> sums) {
  const Four d;
  const auto pairs = hn::Add(sums, hn::ConcatUpperUpper(d, sums, sums));
  return hn::GetLane(hn::Add(pairs, hn::Shuffle2301(pairs)));
}

// Processes several rows at once: their sums are independent and hide the latency of additions.
template <class Half, size_t kRows>
void dot_few_rows(const std::byte* w, int64_t inner, const float* x, float* out) {
  const Four four;
  const Eight eight;
  hn::Vec<Four> sums[kRows];
  for (size_t r = 0; r < kRows; ++r) sums[r] = hn::Zero(four);
  int64_t i = 0;
  for (; i + 8 <= inner; i += 8) {
    const auto factors = hn::LoadU(eight, x + i);
    for (size_t r = 0; r < kRows; ++r) {
      const auto from = static_cast<int64_t>(r) * inner + i;
      const auto products = hn::Mul(load_at<Half>(eight, w, from), factors);
      // Four sums per row, not eight: this is the order of Eigen's packets of four floats.
      sums[r] = hn::Add(sums[r], hn::LowerHalf(products));
      sums[r] = hn::Add(sums[r], hn::UpperHalf(four, products));
    }
  }
  for (; i + 4 <= inner; i += 4)
    for (size_t r = 0; r < kRows; ++r) {
      const auto from = static_cast<int64_t>(r) * inner + i;
      sums[r] = hn::Add(sums[r], hn::Mul(load_at<Half>(four, w, from), hn::LoadU(four, x + i)));
    }
  for (size_t r = 0; r < kRows; ++r) {
    float sum = sum_of_four(sums[r]);
    for (int64_t rest = i; rest < inner; ++rest)
      sum += one_at<Half>(w, static_cast<int64_t>(r) * inner + rest) * x[rest];
    out[r] += sum;
  }
}

template <class Half>
void dot_rows(const std::byte* w, int64_t rows, int64_t inner, const float* x, float* out) {
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) dot_few_rows<Half, 4>(at(w, row * inner), inner, x, out + row);
  for (; row < rows; ++row) dot_few_rows<Half, 1>(at(w, row * inner), inner, x, out + row);
}

// Processes 8 · kEights columns.
template <class Half, size_t kEights>
void add_rows_of(const std::byte* w, int64_t rows, int64_t stride, const float* x, float* out) {
  const Eight d;
  hn::Vec<Eight> sums[kEights];
  for (size_t e = 0; e < kEights; ++e) sums[e] = hn::Zero(d);
  for (int64_t i = 0; i < rows; ++i) {
    const auto factor = hn::Set(d, x[i]);
    // Each column has a separate sum, so vectors of eight do not change the order of additions.
    for (size_t e = 0; e < kEights; ++e) {
      const auto from = i * stride + static_cast<int64_t>(8 * e);
      sums[e] = hn::Add(hn::Mul(load_at<Half>(d, w, from), factor), sums[e]);
    }
  }
  for (size_t e = 0; e < kEights; ++e)
    hn::StoreU(hn::Add(sums[e], hn::LoadU(d, out + 8 * e)), d, out + 8 * e);
}

template <class Half>
void add_rows(const std::byte* w, int64_t rows, int64_t stride, int64_t columns, const float* x,
              float* out) {
  int64_t c = 0;
  for (; c + 32 <= columns; c += 32) add_rows_of<Half, 4>(at(w, c), rows, stride, x, out + c);
  for (; c + 8 <= columns; c += 8) add_rows_of<Half, 1>(at(w, c), rows, stride, x, out + c);
  for (; c < columns; ++c) {
    float sum = 0;
    for (int64_t i = 0; i < rows; ++i) sum += one_at<Half>(w, i * stride + c) * x[i];
    out[c] += sum;
  }
}

const HalfProducts* target_products(DType dtype) {
  static constexpr HalfProducts kF16 = {dot_rows<F16>, add_rows<F16>};
  static constexpr HalfProducts kBf16 = {dot_rows<Bf16>, add_rows<Bf16>};
  if (dtype == DType::f16) return &kF16;
  return dtype == DType::bf16 ? &kBf16 : nullptr;
}

#else

const HalfProducts* target_products(DType /*dtype*/) { return nullptr; }

#endif

}  // namespace
}  // namespace moec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moec {

HWY_EXPORT(target_products);

const HalfProducts* half_products(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(target_products)(dtype);
}

}  // namespace moec
#endif
