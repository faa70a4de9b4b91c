#include "backends/weights/views/code_kernels.h"

#include <algorithm>

// Highway compiles this file once per vector target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/weights/views/code_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace moec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Ints = hn::Rebind<int32_t, Floats>;
using Vector = hn::Vec<Floats>;

constexpr int64_t kNibbles = 32;  // per 16 bytes

int64_t lanes() { return static_cast<int64_t>(hn::Lanes(Floats())); }

// Scale and offset of a block.
struct Affine {
  float scale = 1, offset = 0;
  // Subtraction first, as in DequantNode. An offset that is multiplied by the scale in advance
  // would round differently.
  float operator()(float value) const { return (value - offset) * scale; }
  Vector operator()(Vector value) const {
    const Floats d;
    return hn::Mul(hn::Sub(value, hn::Set(d, offset)), hn::Set(d, scale));
  }
};

// Looks up the 16 values of a block. Computing them once per block costs less than computing each
// element and gives the same bits. AVX2 and AVX-512 keep them in registers.
class Lookup {
 public:
  Lookup(const NibbleTable& table, const Affine& affine) {
    const Floats d;
#if HWY_TARGET <= HWY_AVX3
    low_ = affine(hn::LoadU(d, table.data()));
#elif HWY_TARGET == HWY_AVX2
    low_ = affine(hn::LoadU(d, table.data()));
    high_ = affine(hn::LoadU(d, table.data() + 8));
#else
    for (size_t i = 0; i < table.size(); i += static_cast<size_t>(lanes()))
      hn::StoreU(affine(hn::LoadU(d, table.data() + i)), d, values_.data() + i);
#endif
  }

  Vector operator()(hn::Vec<Ints> index) const {
    const Floats d;
#if HWY_TARGET <= HWY_AVX3
    return hn::TableLookupLanes(low_, hn::IndicesFromVec(d, index));
#elif HWY_TARGET == HWY_AVX2
    // A permutation of eight lanes covers half of the table, so both halves are looked up and
    // blended.
    const auto lane = hn::IndicesFromVec(d, hn::And(index, hn::Set(Ints(), 7)));
    const auto is_high = hn::RebindMask(d, hn::Gt(index, hn::Set(Ints(), 7)));
    return hn::IfThenElse(is_high, hn::TableLookupLanes(high_, lane),
                          hn::TableLookupLanes(low_, lane));
#else
    return hn::GatherIndex(d, values_.data(), index);
#endif
  }

 private:
#if HWY_TARGET <= HWY_AVX3
  Vector low_;
#elif HWY_TARGET == HWY_AVX2
  Vector low_, high_;
#else
  NibbleTable values_;
#endif
};

// Calls decode(affine, first code, count) for each block.
template <class Decode>
void for_each_block(const CodeBlocks& blocks, Decode decode) {
  for (int64_t at = 0, block = 0; at < blocks.count; at += blocks.block, ++block)
    decode(Affine{blocks.scales[block], blocks.offsets ? blocks.offsets[block] : 0.0f}, at,
           std::min(blocks.block, blocks.count - at));
}

uint8_t nibble_at(const std::byte* codes, int64_t i) {
  return static_cast<uint8_t>(std::to_integer<int>(codes[i / 2]) >> (i % 2 * 4) & 15);
}

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

hn::Vec<Ints> load_codes(const uint8_t* from) {
  return hn::PromoteTo(Ints(), hn::LoadU(hn::Rebind<uint8_t, Floats>(), from));
}

void decode_nibbles(const CodeBlocks& blocks, const NibbleTable& table, float* to) {
  const Floats d;
  for_each_block(blocks, [&](const Affine& affine, int64_t first, int64_t count) {
    const Lookup lookup(table, affine);
    int64_t i = first;
    HWY_ALIGN uint8_t codes[kNibbles];
    for (; i % 2 == 0 && i + kNibbles <= first + count; i += kNibbles) {
      unpack_nibbles(blocks.codes + i / 2, codes);
      for (int64_t lane = 0; lane < kNibbles; lane += lanes())
        hn::StoreU(lookup(load_codes(codes + lane)), d, to + i + lane);
    }
    // A block that begins at an odd code, and the rest of a block, are decoded one by one.
    for (; i < first + count; ++i) to[i] = affine(table[nibble_at(blocks.codes, i)]);
  });
}

template <class Byte>
void decode_bytes(const CodeBlocks& blocks, float* to) {
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

void decode_byte_codes(const CodeBlocks& blocks, bool is_signed, float* to) {
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

// ---- Dot products with a token -----------------------------------------------------------------

// Splits the codes of 16 bytes into those of even index, then those of odd index.
void split_nibbles(const std::byte* from, uint8_t* to) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < kNibbles; ++i) to[i % 2 * 16 + i / 2] = nibble_at(from, i);
#else
  const hn::Full128<uint8_t> d;
  const auto packed = hn::LoadU(d, reinterpret_cast<const uint8_t*>(from));
  hn::StoreU(hn::And(packed, hn::Set(d, uint8_t{15})), d, to);
  hn::StoreU(hn::ShiftRight<4>(packed), d, to + 16);
#endif
}

// Looks up the codes of 16 bytes, in the order of split_nibbles().
void look_up_nibbles(const std::byte* from, const NibbleIntegers& table, int8_t* to) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < kNibbles; ++i) to[i % 2 * 16 + i / 2] = table[nibble_at(from, i)];
#else
  const hn::Full128<uint8_t> d;
  const hn::Full128<int8_t> integers;
  const auto packed = hn::LoadU(d, reinterpret_cast<const uint8_t*>(from));
  const auto values = hn::LoadU(integers, table.data());
  const auto low = hn::BitCast(integers, hn::And(packed, hn::Set(d, uint8_t{15})));
  const auto high = hn::BitCast(integers, hn::ShiftRight<4>(packed));
  hn::StoreU(hn::TableLookupBytes(values, low), integers, to);
  hn::StoreU(hn::TableLookupBytes(values, high), integers, to + 16);
#endif
}

// Partial sums of an f32 dot product. A vector per part keeps additions independent.
class FloatSums {
 public:
  FloatSums() {
    for (Vector& part : parts_) part = hn::Zero(Floats());
  }
  void add(int64_t step, Vector weights, const float* token) {
    Vector& part = parts_[step % kParts];
    part = hn::MulAdd(weights, hn::LoadU(Floats(), token), part);
  }
  void add_one(float product) { rest_ += product; }
  float total() const {
    const Vector sum = hn::Add(hn::Add(parts_[0], parts_[1]), hn::Add(parts_[2], parts_[3]));
    return hn::GetLane(hn::SumOfLanes(Floats(), sum)) + rest_;
  }

 private:
  static constexpr int64_t kParts = 4;
  Vector parts_[kParts];
  float rest_ = 0;
};

float dot_nibbles(const CodeBlocks& blocks, const NibbleTable& table, TokenValues token) {
  FloatSums sums;
  for_each_block(blocks, [&](const Affine& affine, int64_t first, int64_t count) {
    const Lookup lookup(table, affine);
    int64_t i = first;
    HWY_ALIGN uint8_t codes[kNibbles];
    for (; i + kNibbles <= first + count; i += kNibbles) {
      split_nibbles(blocks.codes + i / 2, codes);
      for (int64_t lane = 0; lane < kNibbles; lane += lanes())
        sums.add((i + lane) / lanes(), lookup(load_codes(codes + lane)), token.values + i + lane);
    }
    for (; i < first + count; ++i)
      sums.add_one(affine(table[nibble_at(blocks.codes, i)]) * token.values[i]);
  });
  return sums.total();
}

template <class Byte>
float dot_bytes(const CodeBlocks& blocks, TokenValues token) {
  const Floats d;
  const hn::Rebind<Byte, Floats> narrow;
  const auto* codes = reinterpret_cast<const Byte*>(blocks.codes);
  FloatSums sums;
  for_each_block(blocks, [&](const Affine& affine, int64_t first, int64_t count) {
    int64_t i = first;
    for (; i + lanes() <= first + count; i += lanes())
      sums.add(i / lanes(),
               affine(hn::ConvertTo(d, hn::PromoteTo(Ints(), hn::LoadU(narrow, codes + i)))),
               token.values + i);
    for (; i < first + count; ++i)
      sums.add_one(affine(static_cast<float>(codes[i])) * token.values[i]);
  });
  return sums.total();
}

#if HWY_TARGET <= HWY_AVX3
using Shorts = hn::CappedTag<int16_t, 32>;
#else
// At most 16 lanes, so that a vector of codes is one half of look_up_nibbles().
using Shorts = hn::CappedTag<int16_t, 16>;
#endif
using WideInts = hn::RepartitionToWide<Shorts>;
using WideFloats = hn::RebindToFloat<WideInts>;

int64_t shorts() { return static_cast<int64_t>(hn::Lanes(Shorts())); }

// The integers of a group of 4-bit codes, as vectors of Shorts from any multiple of shorts() on.
class NibbleGroup {
 public:
  NibbleGroup(const std::byte* from, const NibbleIntegers& table) {
#if HWY_TARGET <= HWY_AVX3
    const hn::Full128<uint8_t> d;
    const hn::Full128<int8_t> integers;
    const auto packed = hn::LoadU(d, reinterpret_cast<const uint8_t*>(from));
    const auto values = hn::LoadU(integers, table.data());
    const auto low = hn::BitCast(integers, hn::And(packed, hn::Set(d, uint8_t{15})));
    const auto high = hn::BitCast(integers, hn::ShiftRight<4>(packed));
    all_ = hn::PromoteTo(Shorts(),
                         hn::Combine(hn::Full256<int8_t>(), hn::TableLookupBytes(values, high),
                                     hn::TableLookupBytes(values, low)));
  }
  hn::Vec<Shorts> operator()(int64_t /*first*/) const { return all_; }

 private:
  hn::Vec<Shorts> all_;
#else
    look_up_nibbles(from, table, codes_);
  }
  hn::Vec<Shorts> operator()(int64_t first) const {
    return hn::PromoteTo(Shorts(), hn::LoadU(hn::Rebind<int8_t, Shorts>(), codes_ + first));
  }

 private:
  HWY_ALIGN int8_t codes_[kNibbles];
#endif
};

// Sums of an integer dot product: exact within a group, then times the scales of block and token.
class IntegerSums {
 public:
  explicit IntegerSums(TokenCodes token) : token_(token) {
    totals_[0] = totals_[1] = hn::Zero(WideFloats());
  }

  // Adds group `group`, whose first activation is `first`. `load(i)` returns the vector of codes
  // from the group's i-th.
  template <class Load>
  void add_group(const Affine& affine, int64_t first, const Load& load) {
    const WideInts d;
    const int64_t group = first / kTokenGroup;
    auto even = hn::Zero(d), odd = hn::Zero(d);
    for (int64_t i = 0; i < kTokenGroup; i += shorts())
      even = hn::ReorderWidenMulAccumulate(
          d, load(i), hn::LoadU(Shorts(), token_.codes + first + i), even, odd);
    const auto sum = hn::ConvertTo(WideFloats(), hn::Add(even, odd));
    const float scale = affine.scale * token_.scales[group];
    // Alternate sums shorten the chain of dependent additions.
    auto& total = totals_[group % 2];
    total = hn::MulAdd(sum, hn::Set(WideFloats(), scale), total);
    rest_ -= affine.offset * scale * token_.sums[group];
  }

  // Adds the last, shorter group, whose codes are code(i) from the first activation on.
  template <class Code>
  void add_rest(const Affine& affine, int64_t first, int64_t count, const Code& code) {
    if (count == 0) return;
    const int64_t group = first / kTokenGroup;
    int32_t sum = 0;
    for (int64_t i = first; i < first + count; ++i) sum += code(i) * token_.codes[i];
    const float scale = affine.scale * token_.scales[group];
    rest_ += scale * (static_cast<float>(sum) - affine.offset * token_.sums[group]);
  }

  float total() const {
    const auto sum = hn::Add(totals_[0], totals_[1]);
    return hn::GetLane(hn::SumOfLanes(WideFloats(), sum)) + rest_;
  }

 private:
  TokenCodes token_;
  hn::Vec<WideFloats> totals_[2];
  float rest_ = 0;
};

float dot_nibble_codes(const CodeBlocks& blocks, const NibbleIntegers& table, TokenCodes token) {
  IntegerSums sums(token);
  for_each_block(blocks, [&](const Affine& affine, int64_t first, int64_t count) {
    int64_t i = first;
    for (; i + kTokenGroup <= first + count; i += kTokenGroup)
      sums.add_group(affine, i, NibbleGroup(blocks.codes + i / 2, table));
    sums.add_rest(affine, i, first + count - i,
                  [&](int64_t at) { return table[nibble_at(blocks.codes, at)]; });
  });
  return sums.total();
}

template <class Byte>
float dot_byte_codes(const CodeBlocks& blocks, TokenCodes token) {
  IntegerSums sums(token);
  const hn::Rebind<Byte, Shorts> narrow;
  const auto* codes = reinterpret_cast<const Byte*>(blocks.codes);
  for_each_block(blocks, [&](const Affine& affine, int64_t first, int64_t count) {
    int64_t i = first;
    for (; i + kTokenGroup <= first + count; i += kTokenGroup)
      sums.add_group(affine, i, [&](int64_t at) {
        return hn::PromoteTo(Shorts(), hn::LoadU(narrow, codes + i + at));
      });
    sums.add_rest(affine, i, first + count - i, [&](int64_t at) { return int{codes[at]}; });
  });
  return sums.total();
}

// out[r] = dot(row r), where a row has `bytes` bytes.
template <class Dot>
void dot_each_row(const CodeBlockRows& rows, int64_t bytes, float* out, const Dot& dot) {
  CodeBlocks row = rows.first;
  const int64_t blocks = (row.count + row.block - 1) / row.block;
  for (int64_t r = 0; r < rows.rows; ++r) {
    out[r] = dot(row);
    row.codes += bytes;
    row.scales += blocks;
    if (row.offsets) row.offsets += blocks;
  }
}

void dot_nibble_value_rows(const CodeBlockRows& rows, const NibbleTable& table, TokenValues token,
                           float* out) {
  dot_each_row(rows, rows.first.count / 2, out,
               [&](const CodeBlocks& row) { return dot_nibbles(row, table, token); });
}

void dot_byte_value_rows(const CodeBlockRows& rows, bool is_signed, TokenValues token, float* out) {
  dot_each_row(rows, rows.first.count, out, [&](const CodeBlocks& row) {
    return is_signed ? dot_bytes<int8_t>(row, token) : dot_bytes<uint8_t>(row, token);
  });
}

void dot_nibble_code_rows(const CodeBlockRows& rows, const NibbleIntegers& table, TokenCodes token,
                          float* out) {
  dot_each_row(rows, rows.first.count / 2, out,
               [&](const CodeBlocks& row) { return dot_nibble_codes(row, table, token); });
}

void dot_byte_code_rows(const CodeBlockRows& rows, bool is_signed, TokenCodes token, float* out) {
  dot_each_row(rows, rows.first.count, out, [&](const CodeBlocks& row) {
    return is_signed ? dot_byte_codes<int8_t>(row, token) : dot_byte_codes<uint8_t>(row, token);
  });
}

}  // namespace
}  // namespace moec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moec {

HWY_EXPORT(decode_nibbles);
HWY_EXPORT(decode_byte_codes);
HWY_EXPORT(look_up);
HWY_EXPORT(dot_nibble_value_rows);
HWY_EXPORT(dot_byte_value_rows);
HWY_EXPORT(dot_nibble_code_rows);
HWY_EXPORT(dot_byte_code_rows);

void decode_nibble_blocks(const CodeBlocks& blocks, const NibbleTable& table, float* to) {
  HWY_DYNAMIC_DISPATCH(decode_nibbles)(blocks, table, to);
}

void decode_byte_blocks(const CodeBlocks& blocks, bool is_signed, float* to) {
  HWY_DYNAMIC_DISPATCH(decode_byte_codes)(blocks, is_signed, to);
}

void dot_nibble_rows(const CodeBlockRows& rows, const NibbleTable& table, TokenValues token,
                     float* out) {
  HWY_DYNAMIC_DISPATCH(dot_nibble_value_rows)(rows, table, token, out);
}

void dot_byte_rows(const CodeBlockRows& rows, bool is_signed, TokenValues token, float* out) {
  HWY_DYNAMIC_DISPATCH(dot_byte_value_rows)(rows, is_signed, token, out);
}

void dot_nibble_rows(const CodeBlockRows& rows, const NibbleIntegers& table, TokenCodes token,
                     float* out) {
  HWY_DYNAMIC_DISPATCH(dot_nibble_code_rows)(rows, table, token, out);
}

void dot_byte_rows(const CodeBlockRows& rows, bool is_signed, TokenCodes token, float* out) {
  HWY_DYNAMIC_DISPATCH(dot_byte_code_rows)(rows, is_signed, token, out);
}

void look_up_values(const float* table, float* values, int64_t count) {
  HWY_DYNAMIC_DISPATCH(look_up)(table, values, count);
}

}  // namespace moec
#endif
