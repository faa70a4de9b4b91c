// The conversions of ir/graph/scalar.h for arrays. Results are equal for every bit pattern, and the
// loops are vectorised. Bytes are little-endian and need no alignment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/graph/type.h"
#include "ir/graph/weight_view.h"

namespace moec {

// Converts `count` elements of any type to f32.
void decode(DType dtype, const std::byte* from, size_t count, float* to);

// Writes the numbers packed into `count` elements: unpacked_count() of them.
void unpack(Packing packing, const std::byte* from, size_t count, float* to);

// Converts f32 to f32, f16 or bf16, rounding to nearest even. Returns how many finite values became
// infinite.
uint64_t encode(DType dtype, const float* from, size_t count, std::byte* to);

// Multiplies in place. Returns how many finite values became infinite.
uint64_t scale(float factor, float* values, size_t count);

// The same with a factor for each element.
uint64_t multiply(const float* factors, float* values, size_t count);

// How many elements are NaN or infinite; 0 for types that have neither.
uint64_t count_nonfinite(DType dtype, const std::byte* values, size_t count);

}  // namespace moec
