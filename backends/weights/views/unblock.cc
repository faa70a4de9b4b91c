// Bytes are named as in the format: d and m are a block's scale and minimum in f16, q an element's
// code. A product of scales is rounded before it is multiplied by a code, and that product before
// anything is added to it: this file is compiled without fused operations.
#include "backends/weights/views/unblock.h"

#include <bit>
#include <cstdint>
#include <utility>

#include "backends/weights/views/pack_bits.h"
#include "ir/graph/scalar.h"

namespace moec {
namespace {

using Block = const std::byte*;

constexpr int kSmall = 32, kLarge = 256;  // elements of a block

int byte_at(Block from, int index) { return load<uint8_t>(from, static_cast<size_t>(index)); }
int signed_at(Block from, int index) { return load<int8_t>(from, static_cast<size_t>(index)); }
int low(int byte) { return byte & 15; }
int high(int byte) { return byte >> 4; }
float half_at(Block from) { return f32_from_f16(load<uint16_t>(from, 0)); }

// to[i] = value(code, i) for the 32 codes in 16 bytes: the low nibbles are the first 16.
template <class Value>
void each_nibble(Block codes, float* to, Value value) {
  for (int i = 0; i < kSmall / 2; ++i) {
    to[i] = value(low(byte_at(codes, i)), i);
    to[i + kSmall / 2] = value(high(byte_at(codes, i)), i + kSmall / 2);
  }
}

// ---- Blocks of 32 ------------------------------------------------------------------------------

void decode_q4_0(Block block, float* to) {
  const float d = half_at(block);
  each_nibble(block + 2, to, [&](int q, int) { return static_cast<float>(q - 8) * d; });
}

void decode_q4_1(Block block, float* to) {
  const float d = half_at(block), m = half_at(block + 2);
  each_nibble(block + 4, to, [&](int q, int) { return static_cast<float>(q) * d + m; });
}

// The fifth bits of the codes are those of a number.
int fifth_bit(uint32_t bits, int i) { return static_cast<int>(bits >> i & 1) << 4; }

void decode_q5_0(Block block, float* to) {
  const float d = half_at(block);
  const auto fifth = load<uint32_t>(block + 2, 0);
  each_nibble(block + 6, to,
              [&](int q, int i) { return static_cast<float>((q | fifth_bit(fifth, i)) - 16) * d; });
}

void decode_q5_1(Block block, float* to) {
  const float d = half_at(block), m = half_at(block + 2);
  const auto fifth = load<uint32_t>(block + 4, 0);
  each_nibble(block + 8, to,
              [&](int q, int i) { return static_cast<float>(q | fifth_bit(fifth, i)) * d + m; });
}

void decode_q8_0(Block block, float* to) {
  const float d = half_at(block);
  for (int i = 0; i < kSmall; ++i) to[i] = static_cast<float>(signed_at(block + 2, i)) * d;
}

// The sixteen values of the non-linear types.
constexpr float kLevels[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                             1,    13,   25,  38,  53,  69,  89,  113};

void decode_iq4_nl(Block block, float* to) {
  const float d = half_at(block);
  each_nibble(block + 2, to, [&](int q, int) { return d * kLevels[q]; });
}

// Twice the values of E2M1; the code of -0 is 0.
constexpr float kDoubledE2m1[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// 2^(e - 128), subnormal for the lowest two; e = 255 is a number, too.
float half_power(int e) {
  const auto bits = static_cast<uint32_t>(e);
  return std::bit_cast<float>(e < 2 ? uint32_t{0x00200000} << bits : (bits - 1) << 23);
}

void decode_mxfp4(Block block, float* to) {
  const float d = half_power(byte_at(block, 0));
  each_nibble(block + 1, to, [&](int q, int) { return d * kDoubledE2m1[q]; });
}

// ---- Blocks of 256, with scales for their parts ------------------------------------------------

// A part is 16 elements. Where each of 32 bytes has a code for several runs of 32 elements, a
// part's bytes are one half of them.
constexpr int kPart = 16;

// Where 16 of the 256 codes of two bits in 64 bytes are, and by how much they are shifted.
struct PartCodes {
  Block from;
  int shift;
};
PartCodes two_bit_codes(Block codes, int part) {
  return {codes + 32 * (part / 8) + kPart * (part % 2), 2 * (part % 8 / 2)};
}

void decode_q2_k(Block block, float* to) {
  const float d = half_at(block + 80), m = half_at(block + 82);
  for (int part = 0; part < kLarge / kPart; ++part, to += kPart) {
    const PartCodes codes = two_bit_codes(block + 16, part);
    const int scale = byte_at(block, part);
    const float step = d * static_cast<float>(low(scale));
    const float least = m * static_cast<float>(high(scale));
    for (int i = 0; i < kPart; ++i)
      to[i] = step * static_cast<float>(byte_at(codes.from, i) >> codes.shift & 3) - least;
  }
}

// The six bits of a scale: four in one of 8 bytes, two in one of 4 bytes after them.
int q3_scale(Block scales, int part) {
  const int four = byte_at(scales, part % 8) >> (4 * (part / 8)) & 15;
  const int two = byte_at(scales, 8 + part % 4) >> (2 * (part / 4)) & 3;
  return (four | two << 4) - 32;
}

void decode_q3_k(Block block, float* to) {
  const float d = half_at(block + 108);
  for (int part = 0; part < kLarge / kPart; ++part, to += kPart) {
    const PartCodes codes = two_bit_codes(block + 32, part);
    const Block third_bits = block + kPart * (part % 2);
    const float step = d * static_cast<float>(q3_scale(block + 96, part));
    for (int i = 0; i < kPart; ++i) {
      const int third = byte_at(third_bits, i) >> (part / 2) & 1;
      const int q = (byte_at(codes.from, i) >> codes.shift & 3) | third << 2;
      to[i] = step * static_cast<float>(q - 4);
    }
  }
}

// The six bits of the scales and minima of eight parts, in 12 bytes.
struct ScaleAndMin {
  int scale = 0, min = 0;
};
ScaleAndMin scale_and_min(Block scales, int part) {
  const int first = byte_at(scales, part), second = byte_at(scales, part + 4);
  if (part < 4) return {first & 63, second & 63};
  const int third = byte_at(scales, part - 4);
  return {low(second) | third >> 6 << 4, high(second) | first >> 6 << 4};
}

// The common part of Q4_K and Q5_K: 12 bytes of scales after two halves, and nibbles, of which 32
// bytes hold two parts. `fifth(part, i)` is 0 or 16.
template <class Fifth>
void decode_parts_of_32(Block block, Block codes, float* to, Fifth fifth) {
  const float d = half_at(block), m = half_at(block + 2);
  for (int part = 0; part < 8; ++part) {
    const ScaleAndMin six = scale_and_min(block + 4, part);
    const float step = d * static_cast<float>(six.scale), least = m * static_cast<float>(six.min);
    for (int i = 0; i < 32; ++i) {
      const int nibble = byte_at(codes, 32 * (part / 2) + i) >> (4 * (part % 2)) & 15;
      to[32 * part + i] = step * static_cast<float>(nibble | fifth(part, i)) - least;
    }
  }
}

void decode_q4_k(Block block, float* to) {
  decode_parts_of_32(block, block + 16, to, [](int, int) { return 0; });
}

void decode_q5_k(Block block, float* to) {
  const Block fifth_bits = block + 16;
  decode_parts_of_32(block, block + 48, to,
                     [&](int part, int i) { return (byte_at(fifth_bits, i) >> part & 1) << 4; });
}

void decode_q6_k(Block block, float* to) {
  const Block scales = block + 192;
  const float d = half_at(block + 208);
  for (int part = 0; part < kLarge / kPart; ++part, to += kPart) {
    const int half = part / 8, quarter = part % 8 / 2, begin = kPart * (part % 2);
    const Block fours = block + 64 * half + 32 * (quarter % 2) + begin;
    const Block twos = block + 128 + 32 * half + begin;
    const float step = d * static_cast<float>(signed_at(scales, part));
    for (int i = 0; i < kPart; ++i) {
      const int four = byte_at(fours, i) >> (4 * (quarter / 2)) & 15;
      const int two = byte_at(twos, i) >> (2 * quarter) & 3;
      to[i] = step * static_cast<float>((four | two << 4) - 32);
    }
  }
}

void decode_iq4_xs(Block block, float* to) {
  const float d = half_at(block);
  const auto high_bits = load<uint16_t>(block + 2, 0);
  for (int part = 0; part < 8; ++part) {
    const int four = byte_at(block + 4, part / 2) >> (4 * (part % 2)) & 15;
    const int two = high_bits >> (2 * part) & 3;
    const float step = d * static_cast<float>((four | two << 4) - 32);
    each_nibble(block + 8 + 16 * part, to + 32 * part,
                [&](int q, int) { return step * kLevels[q]; });
  }
}

// ------------------------------------------------------------------------------------------------

template <void (*kDecode)(Block, float*), int kElements>
void each_block(const BlockFormat& format, Block from, size_t blocks, float* to) {
  for (size_t i = 0; i < blocks; ++i, from += format.bytes, to += kElements) kDecode(from, to);
}

using Decoder = void (*)(const BlockFormat&, Block, size_t, float*);

constexpr std::pair<BlockType, Decoder> kDecoders[] = {
    {BlockType::q4_0, each_block<decode_q4_0, kSmall>},
    {BlockType::q4_1, each_block<decode_q4_1, kSmall>},
    {BlockType::q5_0, each_block<decode_q5_0, kSmall>},
    {BlockType::q5_1, each_block<decode_q5_1, kSmall>},
    {BlockType::q8_0, each_block<decode_q8_0, kSmall>},
    {BlockType::q2_k, each_block<decode_q2_k, kLarge>},
    {BlockType::q3_k, each_block<decode_q3_k, kLarge>},
    {BlockType::q4_k, each_block<decode_q4_k, kLarge>},
    {BlockType::q5_k, each_block<decode_q5_k, kLarge>},
    {BlockType::q6_k, each_block<decode_q6_k, kLarge>},
    {BlockType::iq4_nl, each_block<decode_iq4_nl, kSmall>},
    {BlockType::iq4_xs, each_block<decode_iq4_xs, kLarge>},
    {BlockType::mxfp4, each_block<decode_mxfp4, kSmall>},
};

// Null for types that are not decoded.
constexpr Decoder decoder_of(BlockType type) {
  for (const auto& [decoded, decoder] : kDecoders)
    if (decoded == type) return decoder;
  return nullptr;
}

constexpr bool decoders_fit_formats() {
  for (size_t i = 0; i < kBlockFormats.size(); ++i)
    if ((decoder_of(static_cast<BlockType>(i)) != nullptr) !=
        (kBlockFormats[i].values == BlockValues::decoded))
      return false;
  return true;
}
static_assert(decoders_fit_formats());

}  // namespace

void unblock(BlockType type, const std::byte* from, size_t blocks, float* to) {
  decoder_of(type)(block_format(type), from, blocks, to);
}

}  // namespace moec
