#include "backends/weights/views/code_kernels.h"

#include <algorithm>
#include <cstring>

// Highway compiles this file once per vector target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/weights/views/code_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/weights/views/code_vectors.h"

HWY_BEFORE_NAMESPACE();
namespace moec::HWY_NAMESPACE {
namespace {

// Calls decode(affine, first code, count) for each block.
template <class Decode>
void for_each_block(const BlockRow& blocks, Decode decode) {
  for (int64_t at = 0, block = 0; at < blocks.count; at += blocks.block, ++block)
    decode(Affine{blocks.scales[block], blocks.offsets ? blocks.offsets[block] : 0.0f}, at,
           std::min(blocks.block, blocks.count - at));
}

#if HWY_TARGET != HWY_AVX2
// Unpacks the codes of 16 bytes, in order.
void unpack_nibbles(const std::byte* from, uint8_t* to) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < kNibbles; ++i) to[i] = nibble_at(from, i);
#else
  const hn::Full128<uint8_t> d;
  const auto packed = hn::LoadU(d, reinterpret_cast<const uint8_t*>(from));
  const auto low = hn::And(packed, hn::Set(d, uint8_t{15}));
  const auto high = hn::ShiftRight<4>(packed);
  hn::StoreU(hn::InterleaveLower(d, low, high), d, to);
  hn::StoreU(hn::InterleaveUpper(d, low, high), d, to + 16);
#endif
}
#endif

// Looks up the codes of 16 bytes.
void look_up_nibbles(const std::byte* from, const Lookup<4>& lookup, float* to) {
  const Floats d;
#if HWY_TARGET == HWY_AVX2
  // A vector has as many lanes as a word has codes. Lookup ignores the bits above a code.
  const hn::RebindToUnsigned<Ints> words;
  const auto shifts = hn::ShiftLeft<2>(hn::Iota(words, 0u));
  for (int64_t i = 0; i < kNibbles; i += lanes()) {
    uint32_t word = 0;
    std::memcpy(&word, from + i / 2, sizeof word);
    hn::StoreU(lookup(hn::BitCast(Ints(), hn::Set(words, word) >> shifts)), d, to + i);
  }
#else
  HWY_ALIGN uint8_t codes[kNibbles];
  unpack_nibbles(from, codes);
  for (int64_t i = 0; i < kNibbles; i += lanes())
    hn::StoreU(lookup(load_codes(codes + i)), d, to + i);
#endif
}

void decode_nibbles(const BlockRow& blocks, const NibbleTable& table, float* to) {
  for_each_block(blocks, [&](const Affine& affine, int64_t first, int64_t count) {
    const Lookup<4> lookup(table.data(), affine);
    int64_t i = first;
    for (; i % 2 == 0 && i + kNibbles <= first + count; i += kNibbles)
      look_up_nibbles(blocks.codes + i / 2, lookup, to + i);
    // A block that begins at an odd code, and the rest of a block, are decoded one by one.
    for (; i < first + count; ++i) to[i] = affine(table[nibble_at(blocks.codes, i)]);
  });
}

template <class Byte>
void decode_bytes(const BlockRow& blocks, float* to) {
  const Floats d;
  const hn::Rebind<Byte, Floats> narrow;
  const auto* codes = reinterpret_cast<const Byte*>(blocks.codes);
  for_each_block(blocks, [&](const Affine& affine, int64_t first, int64_t count) {
    int64_t i = first;
    for (; i + lanes() <= first + count; i += lanes())
      hn::StoreU(affine(hn::ConvertTo(d, hn::PromoteTo(Ints(), hn::LoadU(narrow, codes + i)))), d,
                 to + i);
    for (; i < first + count; ++i) to[i] = affine(static_cast<float>(codes[i]));
  });
}

void decode_byte_codes(const BlockRow& blocks, bool is_signed, float* to) {
  is_signed ? decode_bytes<int8_t>(blocks, to) : decode_bytes<uint8_t>(blocks, to);
}

void look_up(const float* table, float* values, int64_t count) {
  const Floats d;
  int64_t i = 0;
  for (; i + lanes() <= count; i += lanes())
    hn::StoreU(hn::GatherIndex(d, table, hn::ConvertTo(Ints(), hn::LoadU(d, values + i))), d,
               values + i);
  for (; i < count; ++i) values[i] = table[static_cast<int>(values[i])];
}

}  // namespace
}  // namespace moec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moec {

HWY_EXPORT(decode_nibbles);
HWY_EXPORT(decode_byte_codes);
HWY_EXPORT(look_up);

void decode_nibble_blocks(const BlockRow& blocks, const NibbleTable& table, float* to) {
  HWY_DYNAMIC_DISPATCH(decode_nibbles)(blocks, table, to);
}

void decode_byte_blocks(const BlockRow& blocks, bool is_signed, float* to) {
  HWY_DYNAMIC_DISPATCH(decode_byte_codes)(blocks, is_signed, to);
}

void look_up_values(const float* table, float* values, int64_t count) {
  HWY_DYNAMIC_DISPATCH(look_up)(table, values, count);
}

}  // namespace moec
#endif
