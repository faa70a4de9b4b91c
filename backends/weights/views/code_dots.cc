#include <algorithm>

#include "backends/weights/views/code_kernels.h"

// Highway compiles this file once per vector target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/weights/views/code_dots.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/weights/views/code_vectors.h"
#include "backends/weights/views/partial_vector.h"

HWY_BEFORE_NAMESPACE();
namespace moec::HWY_NAMESPACE {
namespace {

// A sum over a block is (Σ code · activation − offset · Σ activation) · scale: offsets cost one
// product per group instead of a subtraction per code. Codes and offsets are counted from a center,
// because two large sums would cancel and lose bits.
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
  // Reads groups [first, first + count), and adds their offsets to the sums.
  template <class Products>
  GroupFactors(const CodeBlocks& row, int64_t first, int64_t count, const Products& products,
               RowSums& sums) {
    const float center = products.center();
    const float *scales = products.scales(), *token_sums = products.sums();
    const float* weights = spread(row.scales, row.block, first, count, factors_);
    HWY_ALIGN float spread_offsets[kChunk];
    const Floats d;
    const float* offsets =
        row.offsets ? spread(row.offsets, row.block, first, count, spread_offsets) : nullptr;
    if (offsets || center != 0)
      for_each_vector(count, [&](int64_t i, auto load) {
        const Vector offset = offsets ? load(offsets + i) : hn::Zero(d);
        const Vector factor = hn::Mul(hn::Sub(offset, hn::Set(d, center)), load(weights + i));
        sums.subtract(hn::Mul(factor, load(token_sums + first + i)));
      });
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
    if (i == count) return;
    const PartialVector partial(count - i);
    visit(i, [&](const float* from) { return partial.load(from); });
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
  FloatNibbles(const NibbleTable& table, float center, TokenValues of)
      : FloatProducts{of}, table_(about(table, center)), center_(center), lookup_(table_, {}) {}

  float center() const { return center_; }
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
  static NibbleTable about(NibbleTable table, float center) {
    for (float& value : table) value -= center;
    return table;
  }

  NibbleTable table_;
  float center_;
  Lookup lookup_;
};

class IntegerNibbles : public IntegerProducts {
 public:
  IntegerNibbles(const NibbleIntegers& table, int8_t center, TokenCodes of)
      : IntegerProducts{of}, table_(table), center_(center) {
    for (int8_t& value : table_) value = static_cast<int8_t>(value - center);
  }

  float center() const { return center_; }
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
  NibbleIntegers table_;
  int8_t center_;
};

// Codes of 8 bits. Unsigned codes are read as signed ones about 128.
template <bool kSigned>
struct Bytes {
  static constexpr uint8_t kFlip = kSigned ? 0 : 0x80;
  static float center() { return kSigned ? 0 : 128; }
  static float code(const std::byte* row, int64_t i) {
    return static_cast<int8_t>(std::to_integer<uint8_t>(row[i]) ^ kFlip);
  }
  // The codes of as many lanes as `Wide` has, from the i-th on.
  template <class Wide>
  static hn::Vec<Wide> load(Wide wide, const std::byte* row, int64_t i) {
    const hn::Rebind<uint8_t, Wide> d;
    const auto codes = hn::LoadU(d, reinterpret_cast<const uint8_t*>(row) + i);
    const auto flipped = kSigned ? codes : hn::Xor(codes, hn::Set(d, kFlip));
    return hn::PromoteTo(wide, hn::BitCast(hn::Rebind<int8_t, Wide>(), flipped));
  }
};

template <bool kSigned>
struct FloatBytes : FloatProducts, Bytes<kSigned> {
  static int64_t position(int64_t i) { return i; }

#if HWY_TARGET != HWY_SCALAR
  Vector group(const std::byte* row, int64_t first) const {
    const Floats d;
    Vector sum = hn::Zero(d);
    for (int64_t lane = first; lane < first + kTokenGroup; lane += lanes())
      sum = hn::MulAdd(hn::ConvertTo(d, this->load(Ints(), row, lane)),
                       hn::LoadU(d, token.values + lane), sum);
    return sum;
  }
#endif
};

template <bool kSigned>
struct IntegerBytes : IntegerProducts, Bytes<kSigned> {
  static int64_t position(int64_t i) { return i; }

#if HWY_TARGET != HWY_SCALAR
  Vector group(const std::byte* row, int64_t first) const {
    return integer_products(token.codes + first,
                            [&](int64_t i) { return this->load(Shorts(), row, first + i); });
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
    const GroupFactors factors(row, first, count, products, sums);
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
    const float offset = (row.offsets ? row.offsets[block] : 0.0f) - products.center();
    const Affine affine{row.scales[block], offset};
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
  dot_each_row(rows, rows.first.count / 2, out,
               FloatNibbles(table, rows.first.offsets ? 8 : 0, token));
}

void dot_byte_value_rows(const CodeBlockRows& rows, bool is_signed, TokenValues token, float* out) {
  is_signed ? dot_each_row(rows, rows.first.count, out, FloatBytes<true>{{token}, {}})
            : dot_each_row(rows, rows.first.count, out, FloatBytes<false>{{token}, {}});
}

void dot_nibble_code_rows(const CodeBlockRows& rows, const NibbleIntegers& table, TokenCodes token,
                          float* out) {
  dot_each_row(rows, rows.first.count / 2, out,
               IntegerNibbles(table, rows.first.offsets ? 8 : 0, token));
}

void dot_byte_code_rows(const CodeBlockRows& rows, bool is_signed, TokenCodes token, float* out) {
  is_signed ? dot_each_row(rows, rows.first.count, out, IntegerBytes<true>{{token}, {}})
            : dot_each_row(rows, rows.first.count, out, IntegerBytes<false>{{token}, {}});
}

}  // namespace
}  // namespace moec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moec {

HWY_EXPORT(dot_nibble_value_rows);
HWY_EXPORT(dot_byte_value_rows);
HWY_EXPORT(dot_nibble_code_rows);
HWY_EXPORT(dot_byte_code_rows);

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

}  // namespace moec
#endif
