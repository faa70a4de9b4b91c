#include "backends/cpu/kernels.h"

#include <algorithm>

// Highway compiles this file once per vector target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// Not before foreach_target.h.
#include <hwy/contrib/math/math-inl.h>

#include "backends/weights/views/partial_vector.h"

HWY_BEFORE_NAMESPACE();
namespace moec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;

// Number of rows whose sums fit in the vector registers, at two vectors per row. AVX-512 has 32
// registers; SSE4 and AVX2 have 16.
constexpr int64_t kTallRows = HWY_TARGET <= HWY_AVX3 ? 8 : 4;

int64_t lanes() { return static_cast<int64_t>(hn::Lanes(Floats())); }

// Loops over vectors are unrolled early, because the compiler otherwise keeps their sums in memory.

// Computes a tile of kRows rows and kVectors vectors of columns. Only the first `columns` columns
// exist; a mask excludes the rest.
template <int kRows, int kVectors>
void multiply_tile(ConstMatrix a, ConstMatrix b, int64_t inner, int64_t columns,
                   MutableMatrix out) {
  const Floats d;
  const int64_t step = lanes();
  Vector sums[kRows][kVectors];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) HWY_UNROLL(8)
  for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
  const bool whole = columns == kVectors * step;
  const PartialVector partial(columns - (kVectors - 1) * step);
  for (int64_t i = 0; i < inner; ++i) {
    const float* row = b.data + i * b.stride;
    Vector factors[kVectors];
    HWY_UNROLL(8)
    for (int v = 0; v + 1 < kVectors; ++v) factors[v] = hn::LoadU(d, row + v * step);
    const float* last = row + (kVectors - 1) * step;
    factors[kVectors - 1] = whole ? hn::LoadU(d, last) : partial.load(last);
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const Vector weight = hn::Set(d, a.data[r * a.stride + i]);
      HWY_UNROLL(8)
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(weight, factors[v], sums[r][v]);
    }
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) HWY_UNROLL(8)
  for (int v = 0; v < kVectors; ++v) {
    float* to = out.data + r * out.stride + v * step;
    if (whole || v + 1 < kVectors)
      hn::StoreU(sums[r][v], d, to);
    else
      partial.store(sums[r][v], to);
  }
}

// Computes kRows rows over all columns, tile by tile.
template <int kRows, int kVectors>
void multiply_band(ConstMatrix a, ConstMatrix b, int64_t inner, int64_t columns,
                   MutableMatrix out) {
  const int64_t step = lanes();
  int64_t at = 0;
  while (columns - at > (kVectors - 1) * step) {
    const int64_t count = std::min(columns - at, kVectors * step);
    multiply_tile<kRows, kVectors>(a, {b.data + at, b.stride}, inner, count,
                                   {out.data + at, out.stride});
    at += count;
  }
  if constexpr (kVectors > 1)
    if (at < columns)
      multiply_band<kRows, 1>(a, {b.data + at, b.stride}, inner, columns - at,
                              {out.data + at, out.stride});
}

void multiply(ConstMatrix a, ConstMatrix b, const KernelSizes& sizes, MutableMatrix out) {
  int64_t row = 0;
  const auto band = [&](auto multiply_band_of, int64_t rows) {
    multiply_band_of(ConstMatrix{a.data + row * a.stride, a.stride}, b, sizes.inner, sizes.columns,
                     MutableMatrix{out.data + row * out.stride, out.stride});
    row += rows;
  };
  while (sizes.rows - row >= kTallRows) band(multiply_band<kTallRows, 2>, kTallRows);
  if (kTallRows > 4 && sizes.rows - row >= 4) band(multiply_band<4, 2>, 4);
  if (sizes.rows - row >= 2) band(multiply_band<2, 4>, 2);
  if (sizes.rows - row >= 1) band(multiply_band<1, 4>, 1);
}

// Accumulates two partial sums per row, over the even and the odd vectors. The masked loop adds the
// remaining elements to the first one.
template <int kRows>
void dot_band(ConstMatrix a, const float* b, int64_t inner, float* out, int64_t out_stride) {
  const Floats d;
  const int64_t step = lanes();
  Vector sums[kRows][2];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * step <= inner; i += 2 * step) HWY_UNROLL(8)
  for (int v = 0; v < 2; ++v) {
    const Vector factors = hn::LoadU(d, b + i + v * step);
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r)
      sums[r][v] =
          hn::MulAdd(hn::LoadU(d, a.data + r * a.stride + i + v * step), factors, sums[r][v]);
  }
  for (; i < inner; i += step) {
    const PartialVector partial(std::min(step, inner - i));
    const Vector factors = partial.load(b + i);
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r)
      sums[r][0] = hn::MulAdd(partial.load(a.data + r * a.stride + i), factors, sums[r][0]);
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r)
    out[r * out_stride] = hn::GetLane(hn::SumOfLanes(d, hn::Add(sums[r][0], sums[r][1])));
}

void dot(ConstMatrix a, ConstMatrix b, const KernelSizes& sizes, MutableMatrix out) {
  int64_t row = 0;
  const auto band = [&](auto dot_band_of, int64_t rows) {
    for (int64_t column = 0; column < sizes.columns; ++column)
      dot_band_of(ConstMatrix{a.data + row * a.stride, a.stride}, b.data + column * b.stride,
                  sizes.inner, out.data + row * out.stride + column, out.stride);
    row += rows;
  };
  while (sizes.rows - row >= 4) band(dot_band<4>, 4);
  if (sizes.rows - row >= 2) band(dot_band<2>, 2);
  if (sizes.rows - row >= 1) band(dot_band<1>, 1);
}

// e^x. Highway's function is defined up to 104, whose result is infinite, and turns NaN to 0.
Vector exp(Vector x) {
  const Floats d;
  const Vector power = hn::Exp(d, hn::Min(x, hn::Set(d, 104.0f)));
  return hn::IfThenElse(hn::Eq(x, x), power, x);
}

// Calls visit(first, load, store) for each vector of an array; load(from) and store(values, to)
// access the lanes that exist.
template <class Visit>
void for_each_vector(int64_t count, const Visit& visit) {
  const Floats d;
  int64_t i = 0;
  for (; i + lanes() <= count; i += lanes())
    visit(
        i, [&](const float* from) { return hn::LoadU(d, from); },
        [&](Vector values, float* to) { hn::StoreU(values, d, to); });
  if (i == count) return;
  const PartialVector partial(count - i);
  visit(
      i, [&](const float* from) { return partial.load(from); },
      [&](Vector values, float* to) { partial.store(values, to); });
}

// Writes e^(x[i] - top), and returns their sum.
float exp_parts(const float* x, int64_t count, float top, float* to) {
  const Floats d;
  Vector sums = hn::Zero(d);
  for_each_vector(count, [&](int64_t i, const auto& load, const auto& store) {
    store(exp(hn::Sub(load(x + i), hn::Set(d, top))), to + i);
    sums = hn::Add(sums, load(to + i));
  });
  return hn::GetLane(hn::SumOfLanes(d, sums));
}

// The largest element. If one is NaN, any of them or NaN: a NaN remains in the sum.
float largest(const float* x, int64_t count) {
  const Floats d;
  Vector most = hn::Set(d, x[0]);
  int64_t i = 0;
  for (; i + lanes() <= count; i += lanes()) most = hn::Max(most, hn::LoadU(d, x + i));
  float top = hn::GetLane(hn::MaxOfLanes(d, most));
  for (; i < count; ++i) top = std::max(top, x[i]);
  return top;
}

void softmax(const float* x, int64_t count, float* to) {
  constexpr int64_t kChunk = 1024;  // of which an f32 sum is exact enough
  const Floats d;
  const float top = largest(x, count);
  double sum = 0;
  for (int64_t i = 0; i < count; i += kChunk)
    sum += exp_parts(x + i, std::min(kChunk, count - i), top, to + i);
  const Vector divisor = hn::Set(d, static_cast<float>(sum));
  for_each_vector(count, [&](int64_t i, const auto& load, const auto& store) {
    store(hn::Div(load(to + i), divisor), to + i);
  });
}

void sigmoid(const float* x, int64_t count, float* to) {
  const Floats d;
  const Vector one = hn::Set(d, 1.0f);
  for_each_vector(count, [&](int64_t i, const auto& load, const auto& store) {
    store(hn::Div(one, hn::Add(one, exp(hn::Neg(load(x + i))))), to + i);
  });
}

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace
}  // namespace moec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moec {

HWY_EXPORT(multiply);
HWY_EXPORT(dot);
HWY_EXPORT(softmax);
HWY_EXPORT(sigmoid);
HWY_EXPORT(target_name);

void multiply_rows(ConstMatrix a, ConstMatrix b, const KernelSizes& sizes, MutableMatrix out) {
  HWY_DYNAMIC_DISPATCH(multiply)(a, b, sizes, out);
}

void dot_rows(ConstMatrix a, ConstMatrix b, const KernelSizes& sizes, MutableMatrix out) {
  HWY_DYNAMIC_DISPATCH(dot)(a, b, sizes, out);
}

void softmax_values(const float* x, int64_t count, float* to) {
  HWY_DYNAMIC_DISPATCH(softmax)(x, count, to);
}

void sigmoid_values(const float* x, int64_t count, float* to) {
  HWY_DYNAMIC_DISPATCH(sigmoid)(x, count, to);
}

const char* vector_target() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace moec
#endif
