// Names follow the format: d and m are the scale and minimum of a block in f16, q is the code of an
// element. A product of scales is rounded before it is multiplied by a code, and that product is
// rounded before any addition. So this file must be compiled without fused multiply-add.
#include "backends/weights/views/unblock.h"

#include <cstdint>

#include "backends/weights/views/pack_bits.h"
#include "backends/weights/views/uneven_blocks.h"
#include "ir/base/invariant.h"
#include "ir/graph/scalar.h"

namespace moec {
namespace {

using Block = const std::byte*;

constexpr int kSmall = 32, kLarge = 256;  // elements per block

int byte_at(Block from, int index) { return load<uint8_t>(from, static_cast<size_t>(index)); }
int signed_at(Block from, int index) { return load<int8_t>(from, static_cast<size_t>(index)); }
int low(int byte) { return byte & 15; }
int high(int byte) { return byte >> 4; }
float half_at(Block from) { return f32_from_f16(load<uint16_t>(from, 0)); }

// Calls take(code, i) for the 32 codes in 16 bytes. The low nibbles are the first 16 codes.
template <class Take>
void each_nibble(Block codes, Take take) {
  for (int i = 0; i < kSmall / 2; ++i) {
    take(low(byte_at(codes, i)), i);
    take(high(byte_at(codes, i)), i + kSmall / 2);
  }
}

// ---- Outputs of a decoder ----------------------------------------------------------------------
//
// A decoder calls put(i, q, step, least) for each element i, whose value is step × q − least.

struct PutValues {
  float* to;
  void operator()(int i, int q, float step, float least = 0) const {
    to[i] = step * static_cast<float>(q) - least;
  }
};

// Blocks with zero points have codes >= 0. If the step is 0, all elements are −least: code 0, scale
// 1, zero point `least`.
struct PutCodes {
  float* to;
  IntegerCodes codes;
  void operator()(int i, int q, float step, float = 0) const {
    const int excess = codes.zeros ? 1 << (codes.bits - 1) : 0;
    to[i] = static_cast<float>((codes.zeros && step == 0 ? 0 : q) - excess);
  }
};

struct PutScales {
  float* to;
  IntegerCodes codes;
  void operator()(int i, int, float step, float = 0) const {
    to[i / codes.elements] = codes.zeros && step == 0 ? 1 : step;
  }
};

struct PutZeros {
  float* to;
  IntegerCodes codes;
  void operator()(int i, int, float step, float least = 0) const {
    to[i / codes.elements] = step == 0 ? least : least / step;
  }
};

// ---- Blocks of 32 ------------------------------------------------------------------------------

template <class Put>
void decode_q4_0(Block block, const Put& put) {
  const float d = half_at(block);
  each_nibble(block + 2, [&](int q, int i) { put(i, q - 8, d); });
}

template <class Put>
void decode_q4_1(Block block, const Put& put) {
  const float d = half_at(block), m = half_at(block + 2);
  each_nibble(block + 4, [&](int q, int i) { put(i, q, d, -m); });
}

// Returns the fifth bit of code i in place; `bits` contains the fifth bits of all codes.
int fifth_bit(uint32_t bits, int i) { return static_cast<int>(bits >> i & 1) << 4; }

template <class Put>
void decode_q5_0(Block block, const Put& put) {
  const float d = half_at(block);
  const auto fifth = load<uint32_t>(block + 2, 0);
  each_nibble(block + 6, [&](int q, int i) { put(i, (q | fifth_bit(fifth, i)) - 16, d); });
}

template <class Put>
void decode_q5_1(Block block, const Put& put) {
  const float d = half_at(block), m = half_at(block + 2);
  const auto fifth = load<uint32_t>(block + 4, 0);
  each_nibble(block + 8, [&](int q, int i) { put(i, q | fifth_bit(fifth, i), d, -m); });
}

template <class Put>
void decode_q8_0(Block block, const Put& put) {
  const float d = half_at(block);
  for (int i = 0; i < kSmall; ++i) put(i, signed_at(block + 2, i), d);
}

// ---- Ternary blocks of 256 ---------------------------------------------------------------------

// Byte `code` stores digits of base 3 as a fraction of 256; returns digit `place`, less 1.
int ternary(int code, int place) {
  constexpr int kPowers[] = {1, 3, 9, 27, 81};
  return ((code * kPowers[place] & 255) * 3 >> 8) - 1;
}

// `bytes` bytes with `digits` digits each; digit 0 of all bytes comes first.
template <class Put>
int put_ternary(Block codes, int bytes, int digits, int first, float d, const Put& put) {
  for (int place = 0; place < digits; ++place)
    for (int i = 0; i < bytes; ++i) put(first++, ternary(byte_at(codes, i), place), d);
  return first;
}

template <class Put>
void decode_tq1_0(Block block, const Put& put) {
  const float d = half_at(block + 52);
  const int first = put_ternary(block, 32, 5, 0, d, put);
  const int second = put_ternary(block + 32, 16, 5, first, d, put);
  put_ternary(block + 48, 4, 4, second, d, put);
}

template <class Put>
void decode_tq2_0(Block block, const Put& put) {
  const float d = half_at(block + 64);
  for (int i = 0; i < kLarge; ++i) {
    const int byte = byte_at(block, 32 * (i / 128) + i % 32);
    put(i, (byte >> (2 * (i % 128 / 32)) & 3) - 1, d);
  }
}

// ---- Blocks of 256, with scales for their parts ------------------------------------------------

// A part has 16 elements. If 32 bytes contain codes of several runs of 32 elements, a part uses one
// half of these bytes.
constexpr int kPart = 16;

// Location and shift of the two-bit codes of a part; the 256 codes of a block lie in 64 bytes.
struct PartCodes {
  Block from;
  int shift;
};
PartCodes two_bit_codes(Block codes, int part) {
  return {codes + 32 * (part / 8) + kPart * (part % 2), 2 * (part % 8 / 2)};
}

template <class Put>
void decode_q2_k(Block block, const Put& put) {
  const float d = half_at(block + 80), m = half_at(block + 82);
  for (int part = 0; part < kLarge / kPart; ++part) {
    const PartCodes codes = two_bit_codes(block + 16, part);
    const int scale = byte_at(block, part);
    const float step = d * static_cast<float>(low(scale));
    const float least = m * static_cast<float>(high(scale));
    for (int i = 0; i < kPart; ++i)
      put(kPart * part + i, byte_at(codes.from, i) >> codes.shift & 3, step, least);
  }
}

// Joins the six bits of a scale, stored with an excess of 32: four in one of 8 bytes, two in one of
// the 4 bytes after them.
int q3_scale(Block scales, int part) {
  const int four = byte_at(scales, part % 8) >> (4 * (part / 8)) & 15;
  const int two = byte_at(scales, 8 + part % 4) >> (2 * (part / 4)) & 3;
  return (four | two << 4) - 32;
}

template <class Put>
void decode_q3_k(Block block, const Put& put) {
  const float d = half_at(block + 108);
  for (int part = 0; part < kLarge / kPart; ++part) {
    const PartCodes codes = two_bit_codes(block + 32, part);
    const Block third_bits = block + kPart * (part % 2);
    const float step = d * static_cast<float>(q3_scale(block + 96, part));
    for (int i = 0; i < kPart; ++i) {
      const int third = byte_at(third_bits, i) >> (part / 2) & 1;
      const int q = (byte_at(codes.from, i) >> codes.shift & 3) | third << 2;
      put(kPart * part + i, q - 4, step);
    }
  }
}

// Six-bit scale and minimum of one of eight parts, stored in 12 bytes.
struct ScaleAndMin {
  int scale = 0, min = 0;
};
ScaleAndMin scale_and_min(Block scales, int part) {
  const int first = byte_at(scales, part), second = byte_at(scales, part + 4);
  if (part < 4) return {first & 63, second & 63};
  const int third = byte_at(scales, part - 4);
  // Parts 4 to 7: low four bits in bytes 8 to 11, high two bits above the six bits of part − 4.
  return {low(second) | third >> 6 << 4, high(second) | first >> 6 << 4};
}

// Common decoder of Q4_K and Q5_K: d and m, 12 bytes of scales, and nibbles in `codes`, two parts
// per 32 bytes. `fifth(part, i)` is 0 or 16.
template <class Put, class Fifth>
void decode_parts_of_32(Block block, Block codes, const Put& put, Fifth fifth) {
  const float d = half_at(block), m = half_at(block + 2);
  for (int part = 0; part < 8; ++part) {
    const ScaleAndMin six = scale_and_min(block + 4, part);
    const float step = d * static_cast<float>(six.scale), least = m * static_cast<float>(six.min);
    for (int i = 0; i < 32; ++i) {
      const int nibble = byte_at(codes, 32 * (part / 2) + i) >> (4 * (part % 2)) & 15;
      put(32 * part + i, nibble | fifth(part, i), step, least);
    }
  }
}

template <class Put>
void decode_q4_k(Block block, const Put& put) {
  decode_parts_of_32(block, block + 16, put, [](int, int) { return 0; });
}

template <class Put>
void decode_q5_k(Block block, const Put& put) {
  const Block fifth_bits = block + 16;
  decode_parts_of_32(block, block + 48, put,
                     [&](int part, int i) { return (byte_at(fifth_bits, i) >> part & 1) << 4; });
}

template <class Put>
void decode_q6_k(Block block, const Put& put) {
  const Block scales = block + 192;
  const float d = half_at(block + 208);
  for (int part = 0; part < kLarge / kPart; ++part) {
    const int half = part / 8, quarter = part % 8 / 2, begin = kPart * (part % 2);
    const Block fours = block + 64 * half + 32 * (quarter % 2) + begin;
    const Block twos = block + 128 + 32 * half + begin;
    const float step = d * static_cast<float>(signed_at(scales, part));
    for (int i = 0; i < kPart; ++i) {
      const int four = byte_at(fours, i) >> (4 * (quarter / 2)) & 15;
      const int two = byte_at(twos, i) >> (2 * quarter) & 3;
      put(kPart * part + i, (four | two << 4) - 32, step);
    }
  }
}

// ------------------------------------------------------------------------------------------------

// Calls run(decoder) with the decoder of an evenly spaced type, a generic callable. Returns false
// for other types.
template <class Run>
bool with_decoder(BlockType type, Run run) {
  switch (type) {
    case BlockType::q4_0:
      run([](Block block, const auto& put) { decode_q4_0(block, put); });
      return true;
    case BlockType::q4_1:
      run([](Block block, const auto& put) { decode_q4_1(block, put); });
      return true;
    case BlockType::q5_0:
      run([](Block block, const auto& put) { decode_q5_0(block, put); });
      return true;
    case BlockType::q5_1:
      run([](Block block, const auto& put) { decode_q5_1(block, put); });
      return true;
    case BlockType::q8_0:
      run([](Block block, const auto& put) { decode_q8_0(block, put); });
      return true;
    case BlockType::q2_k:
      run([](Block block, const auto& put) { decode_q2_k(block, put); });
      return true;
    case BlockType::q3_k:
      run([](Block block, const auto& put) { decode_q3_k(block, put); });
      return true;
    case BlockType::q4_k:
      run([](Block block, const auto& put) { decode_q4_k(block, put); });
      return true;
    case BlockType::q5_k:
      run([](Block block, const auto& put) { decode_q5_k(block, put); });
      return true;
    case BlockType::q6_k:
      run([](Block block, const auto& put) { decode_q6_k(block, put); });
      return true;
    case BlockType::tq1_0:
      run([](Block block, const auto& put) { decode_tq1_0(block, put); });
      return true;
    case BlockType::tq2_0:
      run([](Block block, const auto& put) { decode_tq2_0(block, put); });
      return true;
    default:
      return false;
  }
}

// Writes the `numbers` of each block to `to`, through put_at(to).
template <class PutAt>
void unblock_each(const UnblockStep& step, Block from, size_t blocks, float* to, PutAt put_at) {
  const int64_t bytes = block_format(step.type).bytes, numbers = unblocked_count(step);
  const bool known = with_decoder(step.type, [&](auto decode) {
    for (size_t i = 0; i < blocks; ++i, from += bytes, to += numbers) decode(from, put_at(to));
  });
  MOEC_CHECK(known, "no decoder of {}", enum_name(step.type));
}

}  // namespace

void unblock(const UnblockStep& step, const std::byte* from, size_t blocks, float* to) {
  if (const DecodeBlock decode = uneven_decoder(step.type)) {
    const BlockFormat& format = block_format(step.type);
    for (size_t i = 0; i < blocks; ++i, from += format.bytes, to += format.elements)
      decode(from, to);
    return;
  }
  const IntegerCodes codes = block_format(step.type).codes.value_or(IntegerCodes{});
  switch (step.part) {
    case UnblockPart::values:
      return unblock_each(step, from, blocks, to, [](float* at) { return PutValues{at}; });
    case UnblockPart::codes:
      return unblock_each(step, from, blocks, to, [&](float* at) { return PutCodes{at, codes}; });
    case UnblockPart::scales:
      return unblock_each(step, from, blocks, to, [&](float* at) { return PutScales{at, codes}; });
    case UnblockPart::zeros:
      return unblock_each(step, from, blocks, to, [&](float* at) { return PutZeros{at, codes}; });
  }
}

}  // namespace moec
