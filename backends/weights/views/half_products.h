// Products of a vector with a matrix of 16-bit floats, which is widened in registers. Each sum is
// taken in one order, that of the loops of Eigen for a vector with packets of four floats.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/graph/type.h"

namespace moec {

struct HalfProducts {
  // out[r] += Σ w[r, i] · x[i] for `rows` rows of `inner` elements, which lie one after the other.
  // Four sums over every fourth element are added pairwise; elements behind the last whole four
  // are added one by one.
  void (*dot_rows)(const std::byte* w, int64_t rows, int64_t inner, const float* x, float* out);
  // out[c] += Σ w[i, c] · x[i] for `rows` rows, which lie `stride` elements apart, in their order.
  void (*add_rows)(const std::byte* w, int64_t rows, int64_t stride, int64_t columns,
                   const float* x, float* out);
};

// For elements of f16 or bf16; null for other types, and where this CPU has no AVX2 and F16C.
const HalfProducts* half_products(DType dtype);

}  // namespace moec
