// Affine codes: value ≈ scale × (code − zero), with one scale and one zero point per block of
// values.
#pragma once

#include <cstdint>
#include <span>

#include "ir/graph/encoding.h"

namespace moec {

// Range of codes per bit width: −127 … 127 for 8 bits, because −128 has no positive counterpart and
// some kernels reject it; −2^(bits−1) … 2^(bits−1) − 1 for smaller widths.
struct CodeRange {
  int low = 0, high = 0;
};
CodeRange affine_codes(int bits);

// Significant bits of a scale. With 8 bits, scale × code is exact in f16 (11 significant bits) for
// 4-bit codes. Targets that decode in f16 and targets that decode in f32 then get the same values.
enum class ScalePrecision : uint8_t { bits8 = 8, f16 = 11, f32 = 24 };

// Maximum scale, unless the precision is f32. Keeps the difference of adjacent codes finite in f16.
inline constexpr float kLargestAffineScale = 32768;

struct AffineOptions {
  int bits = 8;  // 2 to 8
  bool zero_point = false;
  ScalePrecision precision = ScalePrecision::f32;
};

struct AffineBlock {
  float scale = 1;  // positive; a normal f16 number unless the precision is f32
  int zero = 0;     // code of the value 0
  bool operator==(const AffineBlock&) const = default;
};

// Returns a block with approximately the least squared error. Tries scales downward from the one
// that spans all values, fits each scale to its codes, and keeps the best. Values must be finite;
// if all are zero, the scale is 1.
AffineBlock fit_affine(std::span<const float> values, const AffineOptions& options);

// code = round to even(value / scale) + zero, clamped to affine_codes(), in the lowest `bits` bits.
void encode_affine(std::span<const float> values, const AffineBlock& block, int bits, CodeForm form,
                   std::span<uint8_t> codes);

// Inverse of encode_affine(): scale × (code − zero).
void decode_affine(std::span<const uint8_t> codes, const AffineBlock& block, int bits,
                   CodeForm form, std::span<float> values);

// Rounds a positive float to this many significant bits, ties to even.
float round_significand(float value, int bits);

}  // namespace moec
