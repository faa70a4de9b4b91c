// Rounding of f32 to narrower float types, and back.
#pragma once

#include <cstdint>

#include "ir/graph/type.h"

namespace moec {

// IEEE binary16, round to nearest even. Overflow yields infinity; subnormals are preserved.
uint16_t f16_from_f32(float value);
float f32_from_f16(uint16_t bits);
// bfloat16, round to nearest even; NaN stays NaN.
uint16_t bf16_from_f32(float value);
float f32_from_bf16(uint16_t bits);
// FP8 E4M3 (FN: no infinities, 0x7f is NaN).
float f32_from_f8_e4m3(uint8_t bits);
// FP4 E2M1, from the low four bits: ±{0, 0.5, 1, 1.5, 2, 3, 4, 6}, without infinities or NaN.
float f32_from_f4_e2m1(uint8_t bits);
// E8M0, the scale of OCP Microscaling: 2^(bits - 127); 0xff is NaN.
float f32_from_f8_e8m0(uint8_t bits);

// Rounds the value to f16 or bf16; returns it unchanged for other types.
float round_to(DType dtype, float value);

// Returns the largest finite number of f32, f16 or bf16; for other types, that of f32.
double largest_finite(DType dtype);

}  // namespace moec
