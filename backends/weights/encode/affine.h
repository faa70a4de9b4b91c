// Affine codes: value ≈ scale × (code − zero), with one scale and one zero for a block of values.
#pragma once

#include <cstdint>
#include <span>

#include "ir/graph/encoding.h"

namespace moec {

// The codes of a number of bits: −127 … 127 for 8 bits, since −128 has no counterpart and some
// kernels refuse it; −2^(bits−1) … 2^(bits−1) − 1 for fewer.
struct CodeRange {
  int low = 0, high = 0;
};
CodeRange affine_codes(int bits);

// The significant bits of a scale. With 8 of them, scale × code is exact in f16 for codes of 4 bits
// (11 significant bits), so that targets that decode in f16 and in f32 get the same values.
enum class ScalePrecision : uint8_t { bits8 = 8, f16 = 11, f32 = 24 };

// The largest scale unless the precision is f32: the steps of codes beside it stay in f16.
inline constexpr float kLargestAffineScale = 32768;

struct AffineOptions {
  int bits = 8;  // 2 to 8
  bool zero_point = false;
  ScalePrecision precision = ScalePrecision::f32;
};

struct AffineBlock {
  float scale = 1;  // positive; a normal number of f16 unless the precision is f32
  int zero = 0;     // the code of the value 0
  bool operator==(const AffineBlock&) const = default;
};

// The block with about the least squared error: scales from the one that spans all values downward
// are tried, each is fitted to the codes that it gives, and the best is taken. Values are finite;
// where all are zero, the scale is 1.
AffineBlock fit_affine(std::span<const float> values, const AffineOptions& options);

// code = round to even(value / scale) + zero, limited to affine_codes(), in the lowest `bits` bits.
void encode_affine(std::span<const float> values, const AffineBlock& block, int bits, CodeForm form,
                   std::span<uint8_t> codes);

// The inverse: scale × (code − zero).
void decode_affine(std::span<const uint8_t> codes, const AffineBlock& block, int bits,
                   CodeForm form, std::span<float> values);

// A positive float rounded to this many significant bits, ties to even.
float round_significand(float value, int bits);

}  // namespace moec
