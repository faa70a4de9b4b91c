// Names follow the format: d is the scale of a block in f16; a part of a block has its own step,
// and a group is the eight or four elements of an entry of the codebook. The layouts are those of
// ggml.
#include "backends/weights/views/uneven_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>

#include "backends/weights/views/iq_grids.h"
#include "backends/weights/views/pack_bits.h"
#include "ir/graph/scalar.h"

namespace moec {
namespace {

using BlockBytes = const std::byte*;

constexpr int kElements = 256;

uint32_t byte_of(BlockBytes from, int index) {
  return load<uint8_t>(from, static_cast<size_t>(index));
}
uint32_t short_of(BlockBytes from, int index) {
  return load<uint16_t>(from, static_cast<size_t>(index));
}
uint32_t word_of(BlockBytes from, int index) {
  return load<uint32_t>(from, static_cast<size_t>(index));
}
uint32_t nibble_of(BlockBytes from, int index) {
  return byte_of(from, index / 2) >> (4 * (index % 2)) & 15;
}
float scale_of(BlockBytes from) { return f32_from_f16(load<uint16_t>(from, 0)); }

// ---- Nonlinear levels and small floats ---------------------------------------------------------

// The sixteen values of iq4_nl and iq4_xs.
constexpr int kLevels[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                           1,    13,   25,  38,  53,  69,  89,  113};
// Twice the values of E2M1; the code of -0 maps to 0.
constexpr int kDoubledE2m1[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Writes 2 · `bytes` levels times `step`. The low nibbles are the first half.
void put_levels(BlockBytes codes, int bytes, const int (&levels)[16], float step, float* to) {
  for (int i = 0; i < bytes; ++i) {
    const uint32_t byte = byte_of(codes, i);
    to[i] = step * static_cast<float>(levels[byte & 15]);
    to[i + bytes] = step * static_cast<float>(levels[byte >> 4]);
  }
}

void decode_iq4_nl(BlockBytes block, float* to) {
  put_levels(block + 2, 16, kLevels, scale_of(block), to);
}

// Per 32 elements: a scale of 6 bits with an excess of 32, four in a nibble and two in a short.
void decode_iq4_xs(BlockBytes block, float* to) {
  const float d = scale_of(block);
  const uint32_t high_bits = short_of(block + 2, 0);
  for (int part = 0; part < 8; ++part) {
    const uint32_t scale = nibble_of(block + 4, part) | (high_bits >> (2 * part) & 3) << 4;
    put_levels(block + 8 + 16 * part, 16, kLevels,
               d * static_cast<float>(static_cast<int>(scale) - 32), to + 32 * part);
  }
}

// 2^(e - 128), subnormal for the lowest two exponents; e = 255 is an ordinary exponent.
float half_power(uint32_t e) {
  return std::bit_cast<float>(e < 2 ? uint32_t{0x00200000} << e : (e - 1) << 23);
}

void decode_mxfp4(BlockBytes block, float* to) {
  put_levels(block + 1, 16, kDoubledE2m1, half_power(byte_of(block, 0)), to);
}

// A scale in E4M3 whose sign is ignored, halved, because levels are doubled. ggml reads 127 as 0.
float half_ue4m3(uint32_t code) {
  if (code == 127) return 0;
  const int exponent = static_cast<int>(code >> 3 & 15), fraction = static_cast<int>(code & 7);
  return std::ldexp(static_cast<float>(exponent == 0 ? fraction : fraction + 8),
                    std::max(exponent, 1) - 11);
}

// Four parts of 16 elements, each with a scale.
void decode_nvfp4(BlockBytes block, float* to) {
  for (int part = 0; part < 4; ++part)
    put_levels(block + 4 + 8 * part, 8, kDoubledE2m1, half_ue4m3(byte_of(block, part)),
               to + 16 * part);
}

// ---- Codebooks ---------------------------------------------------------------------------------

// Seven stored signs; the eighth makes the number of negative elements even.
uint32_t eight_signs(uint32_t seven) {
  return seven | static_cast<uint32_t>(std::popcount(seven) % 2) << 7;
}

// Writes the magnitudes of an entry times `step`, negative where a bit of `signs` is set.
void put_signed(const GridCodebook& grid, size_t entry, int count, uint32_t signs, float step,
                float* to) {
  for (int i = 0; i < count; ++i) {
    const float value = step * static_cast<float>(grid(entry, i));
    to[i] = (signs >> i & 1) != 0 ? -value : value;
  }
}

// Per 32 elements: four bytes of entries, then a word with 4 × 7 signs and a scale of 4 bits.
void decode_iq2_xxs(BlockBytes block, float* to) {
  const float d = scale_of(block);
  for (int part = 0; part < 8; ++part, to += 32) {
    const BlockBytes codes = block + 2 + 8 * part;
    const uint32_t word = word_of(codes + 4, 0);
    const float step = d * (0.5F + static_cast<float>(word >> 28)) * 0.25F;
    for (int group = 0; group < 4; ++group)
      put_signed(kIq2XxsGrid, byte_of(codes, group), 8, eight_signs(word >> (7 * group) & 127),
                 step, to + 8 * group);
  }
}

// Per 8 elements: nine bits of an entry and seven signs; per 16 elements a scale of 4 bits.
void decode_iq2_xs(BlockBytes block, float* to) {
  const float d = scale_of(block);
  for (int group = 0; group < kElements / 8; ++group) {
    const uint32_t code = short_of(block + 2, group);
    const float scale = static_cast<float>(nibble_of(block + 66, group / 2));
    put_signed(kIq2XsGrid, code & 511, 8, eight_signs(code >> 9), d * (0.5F + scale) * 0.25F,
               to + 8 * group);
  }
}

// Per 8 elements: a byte of an entry, two further bits, a byte of signs; per 16 elements a scale.
void decode_iq2_s(BlockBytes block, float* to) {
  const float d = scale_of(block);
  for (int group = 0; group < kElements / 8; ++group) {
    const uint32_t more = byte_of(block + 66, group / 4) >> (2 * (group % 4)) & 3;
    const float scale = static_cast<float>(nibble_of(block + 74, group / 2));
    put_signed(kIq2SGrid, byte_of(block + 2, group) | more << 8, 8, byte_of(block + 34, group),
               d * (0.5F + scale) * 0.25F, to + 8 * group);
  }
}

// Eight bytes of entries per 32 elements; then, per 32 elements, a word as in iq2_xxs.
void decode_iq3_xxs(BlockBytes block, float* to) {
  const float d = scale_of(block);
  for (int part = 0; part < 8; ++part, to += 32) {
    const uint32_t word = word_of(block + 66, part);
    const float step = d * (0.5F + static_cast<float>(word >> 28)) * 0.5F;
    for (int group = 0; group < 8; ++group)
      put_signed(kIq3XxsGrid, byte_of(block + 2, 8 * part + group), 4,
                 eight_signs(word >> (7 * (group / 2)) & 127) >> (4 * (group % 2)), step,
                 to + 4 * group);
  }
}

// Per 4 elements: a byte of an entry, one further bit, four signs; per 32 elements a scale.
void decode_iq3_s(BlockBytes block, float* to) {
  const float d = scale_of(block);
  for (int group = 0; group < kElements / 4; ++group) {
    const uint32_t more = byte_of(block + 66, group / 8) >> (group % 8) & 1;
    const uint32_t scale = nibble_of(block + 106, group / 8);
    put_signed(kIq3SGrid, byte_of(block + 2, group) | more << 8, 4,
               byte_of(block + 74, group / 2) >> (4 * (group % 2)),
               d * static_cast<float>(1 + 2 * scale), to + 4 * group);
  }
}

// Elements are -1, 0 or 1, plus or minus an eighth.
void put_ternary(size_t entry, bool less, float step, float* to) {
  for (int i = 0; i < 8; ++i)
    to[i] = step * (static_cast<float>(kIq1SGrid(entry, i)) + (less ? -0.125F : 0.125F));
}

// Per 32 elements: four bytes of entries, and a short with 4 × 3 further bits, a scale and a sign.
void decode_iq1_s(BlockBytes block, float* to) {
  const float d = scale_of(block);
  for (int part = 0; part < 8; ++part, to += 32) {
    const uint32_t bits = short_of(block + 34, part);
    const float step = d * static_cast<float>(2 * (bits >> 12 & 7) + 1);
    for (int group = 0; group < 4; ++group)
      put_ternary(byte_of(block + 2, 4 * part + group) | (bits >> (3 * group) & 7) << 8,
                  (bits & 0x8000) != 0, step, to + 8 * group);
  }
}

// The scale of the block is in the upper four bits of four shorts, whose lower bits are the scales
// of parts of 16 elements. Per 8 elements: a byte of an entry, three further bits and a sign.
void decode_iq1_m(BlockBytes block, float* to) {
  const BlockBytes scales = block + 48;
  uint32_t half = 0;
  for (int i = 0; i < 4; ++i) half |= short_of(scales, i) >> 12 << (4 * i);
  const float d = f32_from_f16(static_cast<uint16_t>(half));
  for (int group = 0; group < kElements / 8; ++group) {
    const int part = group / 2;
    const uint32_t scale = short_of(scales, part / 4) >> (3 * (part % 4)) & 7;
    const uint32_t more = nibble_of(block + 32, group);
    put_ternary(byte_of(block, group) | (more & 7) << 8, (more & 8) != 0,
                d * static_cast<float>(2 * scale + 1), to + 8 * group);
  }
}

struct UnevenType {
  BlockType type;
  DecodeBlock decode;
};
constexpr UnevenType kUnevenTypes[] = {
    {BlockType::iq4_nl, decode_iq4_nl},   {BlockType::iq4_xs, decode_iq4_xs},
    {BlockType::mxfp4, decode_mxfp4},     {BlockType::nvfp4, decode_nvfp4},
    {BlockType::iq1_s, decode_iq1_s},     {BlockType::iq1_m, decode_iq1_m},
    {BlockType::iq2_xxs, decode_iq2_xxs}, {BlockType::iq2_xs, decode_iq2_xs},
    {BlockType::iq2_s, decode_iq2_s},     {BlockType::iq3_xxs, decode_iq3_xxs},
    {BlockType::iq3_s, decode_iq3_s}};

}  // namespace

DecodeBlock uneven_decoder(BlockType type) {
  const auto* found = std::find_if(std::begin(kUnevenTypes), std::end(kUnevenTypes),
                                   [&](const UnevenType& row) { return row.type == type; });
  return found == std::end(kUnevenTypes) ? nullptr : found->decode;
}

}  // namespace moec
