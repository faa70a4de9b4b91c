// Vectorised versions of the conversions in ir/graph/scalar.h, for arrays. Results are identical
// for every bit pattern. Bytes are little-endian and need no alignment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/graph/type.h"
#include "ir/graph/weight_view.h"

namespace moec {

// Converts `count` elements of type `dtype` to f32.
void decode(DType dtype, const std::byte* from, size_t count, float* to);

// Unpacks all numbers in `count` elements. Writes unpacked_count() numbers.
void unpack(Packing packing, const std::byte* from, size_t count, float* to);

// Converts f32 to `dtype` (f32, f16 or bf16), rounding to nearest, ties to even. Returns the number
// of finite values that became infinite.
uint64_t encode(DType dtype, const float* from, size_t count, std::byte* to);

// Rounds f32 values in place to the precision of `dtype`, as encode() does.
void round_values(DType dtype, float* values, size_t count);

// Multiplies `values` by `factor` in place. Returns the number of finite values that became
// infinite.
uint64_t scale(float factor, float* values, size_t count);

// As scale(), with one factor per element.
uint64_t multiply(const float* factors, float* values, size_t count);

// Returns the number of NaN or infinite elements; 0 for types without NaN and infinity.
uint64_t count_nonfinite(DType dtype, const std::byte* values, size_t count);

}  // namespace moec
