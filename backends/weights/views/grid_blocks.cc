// Names follow the format: d is the scale of a block in f16; a part of a block has its own step,
// and a group is the eight or four elements of an entry of the codebook. The layouts are those of
// ggml.
#include "backends/weights/views/grid_blocks.h"

#include <bit>
#include <cstdint>

#include "backends/weights/views/iq_grids.h"
#include "backends/weights/views/pack_bits.h"
#include "ir/graph/scalar.h"

namespace moec {
namespace {

using GridBytes = const std::byte*;

constexpr int kElements = 256;

uint32_t byte_of(GridBytes from, int index) {
  return load<uint8_t>(from, static_cast<size_t>(index));
}
uint32_t short_of(GridBytes from, int index) {
  return load<uint16_t>(from, static_cast<size_t>(index));
}
uint32_t word_of(GridBytes from, int index) {
  return load<uint32_t>(from, static_cast<size_t>(index));
}
uint32_t nibble_of(GridBytes from, int index) {
  return byte_of(from, index / 2) >> (4 * (index % 2)) & 15;
}
float scale_of(GridBytes from) { return f32_from_f16(load<uint16_t>(from, 0)); }

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
void decode_iq2_xxs(GridBytes block, float* to) {
  const float d = scale_of(block);
  for (int part = 0; part < 8; ++part, to += 32) {
    const GridBytes codes = block + 2 + 8 * part;
    const uint32_t word = word_of(codes + 4, 0);
    const float step = d * (0.5F + static_cast<float>(word >> 28)) * 0.25F;
    for (int group = 0; group < 4; ++group)
      put_signed(iq2_xxs_grid(), byte_of(codes, group), 8, eight_signs(word >> (7 * group) & 127),
                 step, to + 8 * group);
  }
}

// Per 8 elements: nine bits of an entry and seven signs; per 16 elements a scale of 4 bits.
void decode_iq2_xs(GridBytes block, float* to) {
  const float d = scale_of(block);
  for (int group = 0; group < kElements / 8; ++group) {
    const uint32_t code = short_of(block + 2, group);
    const float scale = static_cast<float>(nibble_of(block + 66, group / 2));
    put_signed(iq2_xs_grid(), code & 511, 8, eight_signs(code >> 9), d * (0.5F + scale) * 0.25F,
               to + 8 * group);
  }
}

// Per 8 elements: a byte of an entry, two further bits, a byte of signs; per 16 elements a scale.
void decode_iq2_s(GridBytes block, float* to) {
  const float d = scale_of(block);
  for (int group = 0; group < kElements / 8; ++group) {
    const uint32_t more = byte_of(block + 66, group / 4) >> (2 * (group % 4)) & 3;
    const float scale = static_cast<float>(nibble_of(block + 74, group / 2));
    put_signed(iq2_s_grid(), byte_of(block + 2, group) | more << 8, 8, byte_of(block + 34, group),
               d * (0.5F + scale) * 0.25F, to + 8 * group);
  }
}

// Eight bytes of entries per 32 elements; then, per 32 elements, a word as in iq2_xxs.
void decode_iq3_xxs(GridBytes block, float* to) {
  const float d = scale_of(block);
  for (int part = 0; part < 8; ++part, to += 32) {
    const uint32_t word = word_of(block + 66, part);
    const float step = d * (0.5F + static_cast<float>(word >> 28)) * 0.5F;
    for (int group = 0; group < 8; ++group)
      put_signed(iq3_xxs_grid(), byte_of(block + 2, 8 * part + group), 4,
                 eight_signs(word >> (7 * (group / 2)) & 127) >> (4 * (group % 2)), step,
                 to + 4 * group);
  }
}

// Per 4 elements: a byte of an entry, one further bit, four signs; per 32 elements a scale.
void decode_iq3_s(GridBytes block, float* to) {
  const float d = scale_of(block);
  for (int group = 0; group < kElements / 4; ++group) {
    const uint32_t more = byte_of(block + 66, group / 8) >> (group % 8) & 1;
    const uint32_t scale = nibble_of(block + 106, group / 8);
    put_signed(iq3_s_grid(), byte_of(block + 2, group) | more << 8, 4,
               byte_of(block + 74, group / 2) >> (4 * (group % 2)),
               d * static_cast<float>(1 + 2 * scale), to + 4 * group);
  }
}

// Elements are -1, 0 or 1, plus or minus an eighth.
void put_ternary(size_t entry, bool less, float step, float* to) {
  for (int i = 0; i < 8; ++i)
    to[i] = step * (static_cast<float>(iq1_s_grid()(entry, i)) + (less ? -0.125F : 0.125F));
}

// Per 32 elements: four bytes of entries, and a short with 4 × 3 further bits, a scale and a sign.
void decode_iq1_s(GridBytes block, float* to) {
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
void decode_iq1_m(GridBytes block, float* to) {
  const GridBytes scales = block + 48;
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

}  // namespace

DecodeGridBlock grid_decoder(BlockType type) {
  static constexpr struct {
    BlockType type;
    DecodeGridBlock decode;
  } kDecoders[] = {{BlockType::iq1_s, decode_iq1_s},     {BlockType::iq1_m, decode_iq1_m},
                   {BlockType::iq2_xxs, decode_iq2_xxs}, {BlockType::iq2_xs, decode_iq2_xs},
                   {BlockType::iq2_s, decode_iq2_s},     {BlockType::iq3_xxs, decode_iq3_xxs},
                   {BlockType::iq3_s, decode_iq3_s}};
  for (const auto& row : kDecoders)
    if (row.type == type) return row.decode;
  return nullptr;
}

}  // namespace moec
