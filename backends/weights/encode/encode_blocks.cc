#include "backends/weights/encode/encode_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>

#include "backends/weights/encode/affine.h"
#include "ir/base/invariant.h"
#include "ir/graph/scalar.h"

namespace moec {
namespace {

constexpr size_t kEncodedBlock = 32, kTernaryBlock = 256;  // elements
constexpr size_t kHalf = kEncodedBlock / 2;
constexpr int kScaleBias = 127, kLargestScale = 254;  // of E8M0
constexpr int kLargestExponent = 2;                   // of E2M1, whose largest number is 6

using BlockCodes = std::array<uint8_t, kEncodedBlock>;

void put_byte(std::byte*& to, unsigned value) { *to++ = static_cast<std::byte>(value); }

// Little-endian, as in GGUF files.
void put_scale(std::byte*& to, float scale) {
  const uint16_t bits = f16_from_f32(scale);
  put_byte(to, bits & 0xff);
  put_byte(to, bits >> 8);
}

// Byte j has element j in its low four bits and element j + 16 in its high four bits.
void put_nibbles(std::byte*& to, const BlockCodes& codes) {
  for (size_t j = 0; j < kHalf; ++j) put_byte(to, codes[j] | codes[j + kHalf] << 4);
}

void encode_affine_block(std::span<const float> values, int bits, ScalePrecision precision,
                         std::byte*& to) {
  const AffineBlock block = fit_affine(values, {.bits = bits, .precision = precision});
  BlockCodes codes{};
  // q4_0 stores code + 8; q8_0 stores two's complement.
  encode_affine(values, block, bits, bits == 4 ? CodeForm::excess : CodeForm::signed_codes, codes);
  put_scale(to, block.scale);
  if (bits == 4) return put_nibbles(to, codes);
  for (const uint8_t code : codes) put_byte(to, code);
}

// ---- MXFP4 -------------------------------------------------------------------------------------

constexpr std::array<float, 8> kNumbers = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};

// Returns the index of the nearest E2M1 number; a midpoint goes to the even index.
unsigned nearest_number(float size) {
  return unsigned{size > 0.25F} + unsigned{size >= 0.75F} + unsigned{size > 1.25F} +
         unsigned{size >= 1.75F} + unsigned{size > 2.5F} + unsigned{size >= 3.5F} +
         unsigned{size > 5.0F};
}

// Writes the codes for a scale; returns their squared error in units of the scale.
float scaled_codes(std::span<const float> values, int scale, BlockCodes& codes) {
  // A power of two, so the product is exact unless it underflows.
  const float inverse = std::ldexp(1.0F, kScaleBias - scale);
  float error = 0;
  for (size_t i = 0; i < kEncodedBlock; ++i) {
    const float size = std::abs(values[i]) * inverse;
    const unsigned code = nearest_number(size);
    const float off = size - kNumbers[code];
    error += off * off;
    // Code 8 is −0. Code 0 is used instead, so that 0 has one code.
    codes[i] = static_cast<uint8_t>(values[i] < 0 && code > 0 ? code | 8 : code);
  }
  return error;
}

void encode_mxfp4_block(std::span<const float> values, std::byte*& to) {
  float most = 0;
  for (const float value : values) most = std::max(most, std::abs(value));
  int scale = 0;
  BlockCodes codes{};
  if (most > 0) {
    // With this scale, the largest value lies in [4, 8) scales, and E2M1 ends at 6. Values above 6
    // are clipped unless the next scale has a lower error.
    const int exponent = std::ilogb(most) - kLargestExponent;
    scale = std::clamp(exponent + kScaleBias, 0, kLargestScale);
    const float error = scaled_codes(values, scale, codes);
    BlockCodes coarser{};
    // Squared errors are in units of the squared scale. The coarser scale is twice as large, so its
    // squared error counts 4 times.
    if (scale < kLargestScale && 4 * scaled_codes(values, scale + 1, coarser) < error) {
      codes = coarser;
      ++scale;
    }
  }
  put_byte(to, static_cast<unsigned>(scale));
  put_nibbles(to, codes);
}

// ---- Ternary blocks ----------------------------------------------------------------------------

using Digits = std::array<uint8_t, kTernaryBlock>;  // 0, 1 or 2 for -1, 0 or 1

// Writes `digits` digits of base 3 per byte as a fraction of 256, rounded up. Digit `place` of byte
// i is digit first + place · bytes + i of the block. Layout of ggml.
void put_base_3(std::byte*& to, const Digits& all, size_t first, size_t bytes, size_t digits) {
  constexpr unsigned kPlaces = 5, kRange = 243;
  for (size_t i = 0; i < bytes; ++i) {
    unsigned code = 0;
    for (size_t place = 0; place < kPlaces; ++place)
      code = 3 * code + (place < digits ? all[first + place * bytes + i] : 0);
    put_byte(to, (256 * code + kRange - 1) / kRange);
  }
}

void put_two_bits(std::byte*& to, const Digits& all) {
  for (size_t i = 0; i < kTernaryBlock / 4; ++i) {
    const size_t first = i / 32 * 128 + i % 32;
    put_byte(to, all[first] | all[first + 32] << 2 | all[first + 64] << 4 | all[first + 96] << 6);
  }
}

void encode_ternary_block(std::span<const float> values, BlockType type, std::byte*& to) {
  float most = 0;
  for (const float value : values) most = std::max(most, std::abs(value));
  Digits digits{};
  for (size_t i = 0; i < kTernaryBlock; ++i)
    digits[i] = static_cast<uint8_t>(most > 0 ? std::lround(values[i] / most) + 1 : 1);
  if (type == BlockType::tq2_0) {
    put_two_bits(to, digits);
  } else {
    put_base_3(to, digits, 0, 32, 5);
    put_base_3(to, digits, 160, 16, 5);
    put_base_3(to, digits, 240, 4, 4);
  }
  put_scale(to, most);
}

bool is_ternary(BlockType type) { return type == BlockType::tq1_0 || type == BlockType::tq2_0; }

}  // namespace

bool can_encode_blocks(BlockType type) {
  return type == BlockType::q8_0 || type == BlockType::q4_0 || type == BlockType::mxfp4 ||
         is_ternary(type);
}

void encode_blocks(BlockType type, const float* values, size_t blocks, std::byte* to) {
  MOEC_CHECK(can_encode_blocks(type), "blocks of {} cannot be encoded", enum_name(type));
  const auto elements = static_cast<size_t>(block_format(type).elements);
  for (size_t i = 0; i < blocks; ++i) {
    const std::span<const float> block(values + i * elements, elements);
    if (is_ternary(type))
      encode_ternary_block(block, type, to);
    else if (type == BlockType::mxfp4)
      encode_mxfp4_block(block, to);
    else if (type == BlockType::q4_0)
      encode_affine_block(block, 4, ScalePrecision::bits8, to);
    else
      encode_affine_block(block, 8, ScalePrecision::f16, to);
  }
}

uint64_t count_too_large(BlockType type, const float* values, size_t count) {
  MOEC_CHECK(can_encode_blocks(type), "blocks of {} cannot be encoded", enum_name(type));
  // The maximum of MXFP4, 6 · 2^127, exceeds every f32.
  if (type == BlockType::mxfp4) return 0;
  const int bits = type == BlockType::q4_0 ? 4 : 8;
  const int codes = is_ternary(type) ? 1 : affine_codes(bits).high;
  const float most = kLargestAffineScale * static_cast<float>(codes);
  return static_cast<uint64_t>(
      std::count_if(values, values + count, [&](float value) { return std::abs(value) > most; }));
}

uint64_t count_nan_mxfp4(const std::byte* from, size_t blocks) {
  constexpr std::byte kNan{255};
  const size_t bytes = 1 + kHalf;
  uint64_t count = 0;
  for (size_t i = 0; i < blocks; ++i) count += from[i * bytes] == kNan ? kEncodedBlock : 0;
  return count;
}

void pair_as_gguf(const std::byte* from, size_t blocks, std::byte* to) {
  for (size_t i = 0; i < blocks; ++i) {
    *to++ = *from++;
    BlockCodes codes{};
    for (size_t j = 0; j < kHalf; ++j, ++from) {
      codes[2 * j] = static_cast<uint8_t>(*from) & 15;
      codes[2 * j + 1] = static_cast<uint8_t>(*from) >> 4;
    }
    put_nibbles(to, codes);
  }
}

}  // namespace moec
