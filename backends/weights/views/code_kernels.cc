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

// A sum over a block is (Σ code · activation − offset · Σ activation) · scale: offsets cost one
// product per group instead of a subtraction per code.
constexpr int64_t kChunk = 64;  // groups

// Sums of a row, by lane. Two alternate sums shorten the chain of dependent additions; they are no
// array, because an index that varies would keep them in memory.
class RowSums {
 public:
  // A default member initializer would run in a constructor without the target's instructions.
  RowSums() { even_ = odd_ = hn::Zero(Floats()); }
  void add_even(Vector products, float factor) { even_ = add(even_, products, factor); }
  void add_odd(Vector products, float factor) { odd_ = add(odd_, products, factor); }
  void subtract(Vector offsets) { odd_ = hn::Sub(odd_, offsets); }
  void add_one(float product) { rest_ += product; }
  float total() const {
    return hn::GetLane(hn::SumOfLanes(Floats(), hn::Add(even_, odd_))) + rest_;
  }

 private:
  static Vector add(Vector sum, Vector products, float factor) {
    return hn::MulAdd(products, hn::Set(Floats(), factor), sum);
  }

  Vector even_, odd_;
  float rest_ = 0;
};

// Factors of consecutive groups of a row.
class GroupFactors {
 public:
  // Reads groups [first, first + count). `scales` are those of the token's groups, or null.
  GroupFactors(const CodeBlocks& row, int64_t first, int64_t count, const float* scales,
               const float* token_sums, RowSums& sums) {
    const float* weights = spread(row.scales, row.block, first, count, factors_);
    HWY_ALIGN float spread_offsets[kChunk];
    const Floats d;
    if (row.offsets) {
      const float* offsets = spread(row.offsets, row.block, first, count, spread_offsets);
      for_each_vector(count, [&](int64_t i, auto load) {
        sums.subtract(
            hn::Mul(hn::Mul(load(offsets + i), load(weights + i)), load(token_sums + first + i)));
      });
    }
    if (scales == nullptr) {
      values_ = weights;
      return;
    }
    for_each_vector(count, [&](int64_t i, auto load) {
      hn::StoreU(hn::Mul(load(weights + i), load(scales + first + i)), d, factors_ + i);
    });
    values_ = factors_;
  }
  GroupFactors(const GroupFactors&) = delete;  // values_ may point into the object
  GroupFactors& operator=(const GroupFactors&) = delete;

  float operator[](int64_t i) const { return values_[i]; }

 private:
  // Calls visit(i, load) for each vector of [0, count); load reads no element beyond the count.
  template <class Visit>
  static void for_each_vector(int64_t count, Visit visit) {
    const Floats d;
    int64_t i = 0;
    for (; i + lanes() <= count; i += lanes())
      visit(i, [&](const float* from) { return hn::LoadU(d, from); });
    const auto mask = hn::FirstN(d, static_cast<size_t>(count - i));
    if (i < count) visit(i, [&](const float* from) { return hn::MaskedLoad(mask, d, from); });
  }

  // Returns one number per group: those of the blocks in place if a block is a group.
  static const float* spread(const float* blocks, int64_t block, int64_t first, int64_t count,
                             float* to) {
    if (block == kTokenGroup) return blocks + first;
    for (int64_t i = 0; i < count; ++i) to[i] = blocks[(first + i) * kTokenGroup / block];
    return to;
  }

  HWY_ALIGN float factors_[kChunk];
  const float* values_;
};

// Codes of a row as f32 factors of the activations.
struct FloatProducts {
  TokenValues token;
  const float* scales() const { return nullptr; }
  const float* sums() const { return token.sums; }
  float activation(int64_t i) const { return token.values[i]; }
};

// Codes of a row as integer factors of the quantized activations.
struct IntegerProducts {
  TokenCodes token;
  const float* scales() const { return token.scales; }
  const float* sums() const { return token.sums; }
  float activation(int64_t i) const {
    return static_cast<float>(token.codes[i]) * token.scales[i / kTokenGroup];
  }
};

#if HWY_TARGET != HWY_SCALAR
#if HWY_TARGET <= HWY_AVX3
using Shorts = hn::CappedTag<int16_t, 32>;
#else
// At most 16 lanes, so that a vector of codes is one half of split_nibbles().
using Shorts = hn::CappedTag<int16_t, 16>;
#endif
using WideInts = hn::RepartitionToWide<Shorts>;  // as many lanes as Floats

int64_t shorts() { return static_cast<int64_t>(hn::Lanes(Shorts())); }

// Returns the sums of integer products of a group. load(i) returns the codes from the i-th on.
template <class Load>
Vector integer_products(const int16_t* activations, const Load& load) {
  const WideInts d;
  auto even = hn::Zero(d), odd = hn::Zero(d);
  for (int64_t i = 0; i < kTokenGroup; i += shorts())
    even =
        hn::ReorderWidenMulAccumulate(d, load(i), hn::LoadU(Shorts(), activations + i), even, odd);
  return hn::ConvertTo(Floats(), hn::Add(even, odd));
}

// Splits the codes of 16 bytes into those of even index and those of odd index.
struct SplitNibbles {
  explicit SplitNibbles(const std::byte* from) {
    const auto packed = hn::LoadU(hn::Full128<uint8_t>(), reinterpret_cast<const uint8_t*>(from));
    even = hn::And(packed, hn::Set(hn::Full128<uint8_t>(), uint8_t{15}));
    odd = hn::ShiftRight<4>(packed);
  }
  hn::Vec<hn::Full128<uint8_t>> even, odd;
};
#endif

// Where a whole group of a token holds activation i, for nibbles.
int64_t split_position(int64_t i) {
  return i / kTokenGroup * kTokenGroup + i % 2 * (kTokenGroup / 2) + i % kTokenGroup / 2;
}

class FloatNibbles : public FloatProducts {
 public:
  FloatNibbles(const NibbleTable& table, TokenValues of)
      : FloatProducts{of}, table_(table), lookup_(table, Affine()) {}

  float code(const std::byte* row, int64_t i) const { return table_[nibble_at(row, i)]; }
  static int64_t position(int64_t i) { return split_position(i); }

#if HWY_TARGET != HWY_SCALAR
  Vector group(const std::byte* row, int64_t first) const {
    const Floats d;
    const float* activations = token.values + first;
    const SplitNibbles codes(row + first / 2);
#if HWY_TARGET <= HWY_AVX3
    const auto even = lookup_(hn::PromoteTo(Ints(), codes.even));
    const auto odd = lookup_(hn::PromoteTo(Ints(), codes.odd));
    return hn::MulAdd(odd, hn::LoadU(d, activations + lanes()),
                      hn::Mul(even, hn::LoadU(d, activations)));
#else
    HWY_ALIGN uint8_t split[kNibbles];
    hn::StoreU(codes.even, hn::Full128<uint8_t>(), split);
    hn::StoreU(codes.odd, hn::Full128<uint8_t>(), split + kNibbles / 2);
    Vector sum = hn::Zero(d);
    for (int64_t lane = 0; lane < kNibbles; lane += lanes())
      sum = hn::MulAdd(lookup_(load_codes(split + lane)), hn::LoadU(d, activations + lane), sum);
    return sum;
#endif
  }
#endif

 private:
  const NibbleTable& table_;
  Lookup lookup_;
};

class IntegerNibbles : public IntegerProducts {
 public:
  IntegerNibbles(const NibbleIntegers& table, TokenCodes of) : IntegerProducts{of}, table_(table) {}

  float code(const std::byte* row, int64_t i) const { return table_[nibble_at(row, i)]; }
  static int64_t position(int64_t i) { return split_position(i); }

#if HWY_TARGET != HWY_SCALAR
  Vector group(const std::byte* row, int64_t first) const {
    const hn::Full128<int8_t> d;
    const SplitNibbles codes(row + first / 2);
    const auto values = hn::LoadU(d, table_.data());
    const auto even = hn::TableLookupBytes(values, hn::BitCast(d, codes.even));
    const auto odd = hn::TableLookupBytes(values, hn::BitCast(d, codes.odd));
#if HWY_TARGET <= HWY_AVX3
    const auto all = hn::Combine(hn::Full256<int8_t>(), odd, even);
    return integer_products(token.codes + first,
                            [&](int64_t /*i*/) { return hn::PromoteTo(Shorts(), all); });
#else
    HWY_ALIGN int8_t split[kNibbles];
    hn::StoreU(even, d, split);
    hn::StoreU(odd, d, split + kNibbles / 2);
    return integer_products(token.codes + first, [&](int64_t i) {
      return hn::PromoteTo(Shorts(), hn::LoadU(hn::Rebind<int8_t, Shorts>(), split + i));
    });
#endif
  }
#endif

 private:
  const NibbleIntegers& table_;
};

template <class Byte>
struct FloatBytes : FloatProducts {
  float code(const std::byte* row, int64_t i) const {
    return static_cast<float>(reinterpret_cast<const Byte*>(row)[i]);
  }
  static int64_t position(int64_t i) { return i; }

#if HWY_TARGET != HWY_SCALAR
  Vector group(const std::byte* row, int64_t first) const {
    const Floats d;
    const auto* codes = reinterpret_cast<const Byte*>(row) + first;
    Vector sum = hn::Zero(d);
    for (int64_t lane = 0; lane < kTokenGroup; lane += lanes()) {
      const auto integers =
          hn::PromoteTo(Ints(), hn::LoadU(hn::Rebind<Byte, Floats>(), codes + lane));
      sum = hn::MulAdd(hn::ConvertTo(d, integers), hn::LoadU(d, token.values + first + lane), sum);
    }
    return sum;
  }
#endif
};

template <class Byte>
struct IntegerBytes : IntegerProducts {
  float code(const std::byte* row, int64_t i) const {
    return static_cast<float>(reinterpret_cast<const Byte*>(row)[i]);
  }
  static int64_t position(int64_t i) { return i; }

#if HWY_TARGET != HWY_SCALAR
  Vector group(const std::byte* row, int64_t first) const {
    const auto* codes = reinterpret_cast<const Byte*>(row) + first;
    return integer_products(token.codes + first, [&](int64_t i) {
      return hn::PromoteTo(Shorts(), hn::LoadU(hn::Rebind<Byte, Shorts>(), codes + i));
    });
  }
#endif
};

template <class Products>
float dot_row(const CodeBlocks& row, const Products& products) {
  RowSums sums;
  const int64_t whole = row.count / kTokenGroup * kTokenGroup;
  int64_t done = 0;
#if HWY_TARGET != HWY_SCALAR
  for (int64_t first = 0; first < whole / kTokenGroup; first += kChunk) {
    const int64_t count = std::min(kChunk, whole / kTokenGroup - first);
    const GroupFactors factors(row, first, count, products.scales(), products.sums(), sums);
    const auto group = [&](int64_t i) {
      return products.group(row.codes, (first + i) * kTokenGroup);
    };
    int64_t i = 0;
    for (; i + 1 < count; i += 2) {
      sums.add_even(group(i), factors[i]);
      sums.add_odd(group(i + 1), factors[i + 1]);
    }
    if (i < count) sums.add_even(group(i), factors[i]);
  }
  done = whole;
#endif
  for (int64_t i = done; i < row.count; ++i) {
    const int64_t block = i / row.block;
    const Affine affine{row.scales[block], row.offsets ? row.offsets[block] : 0.0f};
    const int64_t position = i < whole ? products.position(i) : i;
    sums.add_one(affine(products.code(row.codes, i)) * products.activation(position));
  }
  return sums.total();
}

// A row has `bytes` bytes.
template <class Products>
void dot_each_row(const CodeBlockRows& rows, int64_t bytes, float* out, const Products& products) {
  CodeBlocks row = rows.first;
  const int64_t blocks = (row.count + row.block - 1) / row.block;
  for (int64_t r = 0; r < rows.rows; ++r) {
    out[r] = dot_row(row, products);
    row.codes += bytes;
    row.scales += blocks;
    if (row.offsets) row.offsets += blocks;
  }
}

void dot_nibble_value_rows(const CodeBlockRows& rows, const NibbleTable& table, TokenValues token,
                           float* out) {
  dot_each_row(rows, rows.first.count / 2, out, FloatNibbles(table, token));
}

void dot_byte_value_rows(const CodeBlockRows& rows, bool is_signed, TokenValues token, float* out) {
  is_signed ? dot_each_row(rows, rows.first.count, out, FloatBytes<int8_t>{{token}})
            : dot_each_row(rows, rows.first.count, out, FloatBytes<uint8_t>{{token}});
}

void dot_nibble_code_rows(const CodeBlockRows& rows, const NibbleIntegers& table, TokenCodes token,
                          float* out) {
  dot_each_row(rows, rows.first.count / 2, out, IntegerNibbles(table, token));
}

void dot_byte_code_rows(const CodeBlockRows& rows, bool is_signed, TokenCodes token, float* out) {
  is_signed ? dot_each_row(rows, rows.first.count, out, IntegerBytes<int8_t>{{token}})
            : dot_each_row(rows, rows.first.count, out, IntegerBytes<uint8_t>{{token}});
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
