#include "ir/graph/scalar.h"

#include <bit>
#include <cmath>
#include <limits>

namespace moec {

// Rounds the fraction to nearest even by integer arithmetic on the f32 bits. Adding half a unit in
// the last kept place, minus one if the kept part is even, carries exactly if it must round up.
uint16_t f16_from_f32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);   // NaN
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // ≥ 65520: infinity
  if (magnitude >= 0x38800000u) {                                              // normal in f16
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    // Changes the exponent's bias from 127 to 15. A carry from rounding increments the exponent.
    return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
  if (magnitude < 0x33000000u) return static_cast<uint16_t>(sign);  // < 2^-25: zero
  const uint32_t exponent = magnitude >> 23;                        // 102 … 112
  const uint32_t fraction = (magnitude & 0x7fffffu) | 0x800000u;
  const uint32_t shift = 126u - exponent;  // 14 … 24
  const uint32_t kept = fraction >> shift;
  const uint32_t rest = fraction & ((1u << shift) - 1u);
  const uint32_t half = 1u << (shift - 1u);
  const uint32_t up = rest > half || (rest == half && (kept & 1u)) ? 1u : 0u;
  return static_cast<uint16_t>(sign | (kept + up));
}

float f32_from_f16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  // Subnormal: fraction · 2^−24. The smallest normal number is 2^−14.
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
    return sign ? -magnitude : magnitude;
  }
  // 112 is the difference of the biases, 127 − 15.
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (fraction << 13));
}

uint16_t bf16_from_f32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>((bits >> 16) | 0x40u);  // quiet, so that NaN stays NaN
  // Adds half a unit in the last kept place, minus one if the kept part is even. Infinity stays
  // infinity.
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float f32_from_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

float f32_from_f8_e4m3(uint8_t bits) {
  const int exponent = (bits >> 3) & 0xf;
  const int fraction = bits & 0x7;
  float magnitude = 0;
  // The format has no infinities, and only the largest code of each sign is NaN. The bias is 7.
  if ((bits & 0x7f) == 0x7f)
    magnitude = std::numeric_limits<float>::quiet_NaN();
  else if (exponent == 0)
    magnitude = std::ldexp(static_cast<float>(fraction), -9);
  else
    magnitude = std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
  return bits & 0x80 ? -magnitude : magnitude;
}

float f32_from_f4_e2m1(uint8_t bits) {
  // The bias is 1, and all codes are finite.
  const int exponent = (bits >> 1) & 0x3;
  const int fraction = bits & 0x1;
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(fraction), -1)
                              : std::ldexp(static_cast<float>(2 + fraction), exponent - 2);
  return bits & 0x8 ? -magnitude : magnitude;
}

float f32_from_f8_e8m0(uint8_t bits) {
  if (bits == 0xff) return std::numeric_limits<float>::quiet_NaN();
  // A code is an exponent with a bias of 127, so every value is a power of two.
  return std::ldexp(1.0f, bits - 127);
}

float round_to(DType dtype, float value) {
  if (dtype == DType::f16) return f32_from_f16(f16_from_f32(value));
  if (dtype == DType::bf16) return f32_from_bf16(bf16_from_f32(value));
  return value;
}

double largest_finite(DType dtype) {
  if (dtype == DType::f16) return f32_from_f16(0x7bff);
  if (dtype == DType::bf16) return f32_from_bf16(0x7f7f);
  return std::numeric_limits<float>::max();
}

}  // namespace moec
