// The conversions of ir/graph/scalar.h in bulk: equal to them for each bit pattern, and in a form
// that a compiler vectorises. Bytes are little-endian and need no alignment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/graph/type.h"
#include "ir/graph/weight_view.h"

namespace moec {

// `count` elements of any type to f32.
void decode(DType dtype, const std::byte* from, size_t count, float* to);

// The numbers in `count` elements, packed_count() of each.
void unpack(Packing packing, const std::byte* from, size_t count, float* to);

// f32 to f32, f16 or bf16, rounded to nearest even. Returns how many finite values became infinite.
uint64_t encode(DType dtype, const float* from, size_t count, std::byte* to);

// Multiplies in place. Returns how many finite values became infinite.
uint64_t scale(float factor, float* values, size_t count);

// The same by a factor for each element.
uint64_t multiply(const float* factors, float* values, size_t count);

// Of float types and f8_e4m3; 0 for all others.
uint64_t count_nans(DType dtype, const std::byte* values, size_t count);
uint64_t count_nonfinite(DType dtype, const std::byte* values, size_t count);

}  // namespace moec
