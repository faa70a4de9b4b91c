// Products of a vector and a matrix of 16-bit floats, which are widened in registers. The order of
// summation is fixed: that of Eigen's matrix-vector loops with packets of four floats.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/graph/type.h"

namespace moec {

struct HalfProducts {
  // out[r] += Σ w[r, i] · x[i] for `rows` contiguous rows of `inner` elements. Four partial sums,
  // each over every fourth element, are added pairwise; then the last inner % 4 products are added
  // one by one.
  void (*dot_rows)(const std::byte* w, int64_t rows, int64_t inner, const float* x, float* out);
  // out[c] += Σ w[i, c] · x[i], summed over `rows` rows in order. Rows are `stride` elements apart.
  void (*add_rows)(const std::byte* w, int64_t rows, int64_t stride, int64_t columns,
                   const float* x, float* out);
};

// Returns the kernels for f16 or bf16; null for other types, or if this CPU lacks AVX2.
const HalfProducts* half_products(DType dtype);

}  // namespace moec
