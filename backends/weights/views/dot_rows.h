// Dot products of rows of codes with a token, for one vector target. The products of the codes of a
// vector with their activations are a parameter: f32 in code_dots.cc, integers in integer_dots.cc.
//
// Highway compiles the files that include this one once per vector target, hence the guard.
#if defined(MOEC_BACKENDS_WEIGHTS_VIEWS_DOT_ROWS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MOEC_BACKENDS_WEIGHTS_VIEWS_DOT_ROWS_H
#undef MOEC_BACKENDS_WEIGHTS_VIEWS_DOT_ROWS_H
#else
#define MOEC_BACKENDS_WEIGHTS_VIEWS_DOT_ROWS_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "backends/weights/views/code_kernels.h"
#include "backends/weights/views/code_vectors.h"
#include "backends/weights/views/partial_vector.h"

HWY_BEFORE_NAMESPACE();
namespace moec::HWY_NAMESPACE {

template <int kBits>
uint8_t code_at(const std::byte* codes, int64_t i) {
  const int64_t bit = i * kBits, byte = bit / 8;
  const int shift = static_cast<int>(bit % 8);
  int bits = std::to_integer<int>(codes[byte]);
  if (shift + kBits > 8) bits |= std::to_integer<int>(codes[byte + 1]) << 8;
  return static_cast<uint8_t>(bits >> shift & ((1 << kBits) - 1));
}

// The number of a code, without the center.
template <int kBits>
int signed_number(uint8_t code, const LinearCodes& codes) {
  const int flipped = code ^ codes.flip;
  return flipped < 1 << (kBits - 1) ? flipped : flipped - (1 << kBits);
}

#if HWY_TARGET != HWY_SCALAR

using Words = hn::Vec<Ints>;  // 32-bit lanes of codes

// Bytes of the codes of a vector; codes of 3 or 6 bits fill 24 bits of a lane.
template <int kBits>
constexpr int64_t kLaneBytes = lane_codes(kBits) * kBits / 8;

// Loads codes. For 3 or 6 bits, reads 4 bytes more than a vector has.
template <int kBits>
Words load_words(const std::byte* from) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(from);
  const Bytes d;
  if constexpr (kLaneBytes<kBits> == 4) {
    return hn::BitCast(Ints(), hn::LoadU(d, bytes));
  } else {
    const hn::Full128<uint8_t> block;
    HWY_ALIGN constexpr uint8_t kSpread[16] = {0, 1, 2, 128, 3, 4,  5,  128,
                                               6, 7, 8, 128, 9, 10, 11, 128};
#if HWY_TARGET <= HWY_AVX3
    const hn::Full256<uint8_t> half;
    const auto packed = hn::Combine(
        d, hn::Combine(half, hn::LoadU(block, bytes + 36), hn::LoadU(block, bytes + 24)),
        hn::Combine(half, hn::LoadU(block, bytes + 12), hn::LoadU(block, bytes)));
#elif HWY_TARGET == HWY_AVX2
    const auto packed = hn::Combine(d, hn::LoadU(block, bytes + 12), hn::LoadU(block, bytes));
#else
    const auto packed = hn::LoadU(block, bytes);
#endif
    return hn::BitCast(Ints(), hn::TableLookupBytesOr0(packed, hn::LoadDup128(d, kSpread)));
  }
}

// Loads the codes of the first lanes; those of the others are 0.
template <int kBits>
Words load_part(const std::byte* from, int64_t lanes) {
#if HWY_TARGET <= HWY_AVX2
  // A copy to the stack would wait until its bytes are written.
  if constexpr (kLaneBytes<kBits> == 4)
    return hn::MaskedLoad(hn::FirstN(Ints(), static_cast<size_t>(lanes)), Ints(),
                          reinterpret_cast<const int32_t*>(from));
#endif
  std::array<std::byte, HWY_LANES(uint8_t) + 4> padded{};
  std::memcpy(padded.data(), from, static_cast<size_t>(lanes * kLaneBytes<kBits>));
  return load_words<kBits>(padded.data());
}

// The bits to invert, in all nibbles of a lane.
inline Words flip_nibbles(const LinearCodes& codes) {
  return hn::BitCast(Ints(), hn::Set(Bytes(), static_cast<uint8_t>(codes.flip * 0x11)));
}

// Bits [kBits · kField, kBits · (kField + 1)) of each lane, in two's complement.
template <int kBits, int kField, class D>
hn::Vec<D> signed_field(D /*d*/, hn::Vec<D> lanes) {
  constexpr int kLane = sizeof(hn::TFromD<D>) * 8, kAbove = kLane - kBits * (kField + 1);
  if constexpr (kAbove > 0) lanes = hn::ShiftLeft<kAbove>(lanes);
  return hn::ShiftRight<kLane - kBits>(lanes);
}

#endif

// Codes of 8 bits. Unsigned codes are counted from 128.
template <bool kSigned>
struct ByteCodes {
  static int center() { return kSigned ? 0 : 128; }
  static float number(uint8_t code) {
    return static_cast<float>(kSigned ? static_cast<int8_t>(code) : code - 128);
  }
#if HWY_TARGET != HWY_SCALAR
  // The numbers of as many codes as `D` has lanes.
  template <class D>
  static hn::Vec<D> load(D d, const std::byte* from) {
    if constexpr (kSigned) {
      return hn::PromoteTo(
          d, hn::LoadU(hn::Rebind<int8_t, D>(), reinterpret_cast<const int8_t*>(from)));
    } else {
      const auto codes =
          hn::LoadU(hn::Rebind<uint8_t, D>(), reinterpret_cast<const uint8_t*>(from));
      return hn::Sub(hn::PromoteTo(d, codes), hn::Set(d, 128));
    }
  }
#endif
};

#if HWY_TARGET != HWY_SCALAR

// Sums of a row, by lane. Two alternate sums shorten the chain of dependent additions; they are no
// array, because an index that varies would keep them in memory.
class RowSums {
 public:
  // A default member initializer would run in a constructor without the target's instructions.
  RowSums() { even_ = odd_ = hn::Zero(Floats()); }
  void add_even(Vector products, Vector factors) { even_ = hn::MulAdd(products, factors, even_); }
  void add_odd(Vector products, Vector factors) { odd_ = hn::MulAdd(products, factors, odd_); }
  void subtract(Vector factors, Vector values) { odd_ = hn::NegMulAdd(factors, values, odd_); }
  float total() const { return hn::GetLane(hn::SumOfLanes(Floats(), hn::Add(even_, odd_))); }

 private:
  Vector even_, odd_;
};

// Spreads one number per group to the lanes of the group. As many groups as a vector has lanes fill
// kVectors vectors.
template <int kVectors>
class GroupSpread {
 public:
  GroupSpread() {
    for (int64_t v = 0; v < kVectors; ++v)
      indices_[v] = hn::IndicesFromVec(Floats(), hn::LoadU(Ints(), kGroups.data() + v * lanes()));
  }
  Vector operator()(Vector groups, int64_t v) const {
    return hn::TableLookupLanes(groups, indices_[v]);
  }

 private:
  static constexpr auto kGroups = [] {
    std::array<int32_t, kVectors * HWY_LANES(float)> groups{};
    for (size_t lane = 0; lane < groups.size(); ++lane)
      groups[lane] = static_cast<int32_t>(lane / kVectors);
    return groups;
  }();
  using Indices = decltype(hn::IndicesFromVec(Floats(), hn::Zero(Ints())));
  Indices indices_[kVectors];
};

// Multiplies the whole groups of a row. `Products` has:
// - kBits, of a code
// - center(), which its numbers lack
// - scales(), of the groups of the token, or null; sums()
// - operator()(codes, lane): the sums of products by lane, for a vector of codes from the row's
//   `lane` on, as Words; for the bytes of a group if a lane holds one
template <class Products>
class GroupDots {
  static constexpr int kBits = Products::kBits;
  static constexpr bool kWidens = lane_codes(kBits) == 1;
  static constexpr int64_t kGroupLanes = kTokenGroup / lane_codes(kBits);
  // A tile is as many groups as a vector has lanes.
  static constexpr int64_t kVectors = kWidens ? HWY_LANES(float) : kGroupLanes;
  static constexpr int64_t kChunk = 64;  // groups

 public:
  explicit GroupDots(const Products& products) : products_(products) {}

  float operator()(const BlockRow& row) const {
    RowSums sums;
    HWY_ALIGN float scales[kChunk], offsets[kChunk];
    if (row.scales == nullptr) std::fill_n(scales, kChunk, 1.0f);
    const int64_t groups = row.count / kTokenGroup;
    for (int64_t first = 0; first < groups; first += kChunk) {
      const int64_t count = std::min(kChunk, groups - first);
      const Chunk chunk{row, first,
                        row.scales ? spread(row.scales, row.block, first, count, scales) : scales,
                        spread(row.offsets, row.block, first, count, offsets)};
      int64_t at = 0;
      for (; at + lanes() <= count; at += lanes()) add_tile(chunk, at, sums);
      if (at < count) add_part(chunk, at, count - at, sums);
    }
    return sums.total();
  }

 private:
  struct Chunk {
    const BlockRow& row;
    int64_t first = 0;  // group
    const float* scales = nullptr;
    const float* offsets = nullptr;
  };

  // Returns one number per group, or null if there are none: those of the blocks in place if a
  // block is a group.
  static const float* spread(const float* blocks, int64_t block, int64_t first, int64_t count,
                             float* to) {
    if (blocks == nullptr) return nullptr;
    if (block == kTokenGroup) return blocks + first;
    for (int64_t at = 0; at < count;) {
      const int64_t column = (first + at) * kTokenGroup;
      const int64_t end = std::min(count, at + (block - column % block) / kTokenGroup);
      std::fill(to + at, to + end, blocks[column / block]);
      at = end;
    }
    return to;
  }

  // Returns the factors of the groups from `at` on, and subtracts their offsets. A sum over a block
  // is (Σ number · activation − offset · Σ activation) · scale: offsets cost one product per group
  // instead of a subtraction per code. Numbers and offsets are counted from a center, because two
  // large sums would cancel and lose bits.
  template <class Load>
  Vector factors(const Chunk& chunk, int64_t at, RowSums& sums, const Load& load) const {
    const Floats d;
    const auto center = static_cast<float>(products_.center());
    const Vector scales = load(chunk.scales + at);
    if (chunk.offsets || center != 0) {
      const Vector offsets = chunk.offsets ? load(chunk.offsets + at) : hn::Zero(d);
      sums.subtract(hn::Mul(hn::Sub(offsets, hn::Set(d, center)), scales),
                    load(products_.sums() + chunk.first + at));
    }
    const float* token_scales = products_.scales();
    return token_scales ? hn::Mul(scales, load(token_scales + chunk.first + at)) : scales;
  }

  static int64_t vector_lanes() { return kWidens ? kTokenGroup : lanes(); }

  void add_tile(const Chunk& chunk, int64_t at, RowSums& sums) const {
    const Vector all =
        factors(chunk, at, sums, [](const float* from) { return hn::LoadU(Floats(), from); });
    add_vectors(chunk.row, (chunk.first + at) * kGroupLanes, all, sums,
                std::make_index_sequence<kVectors>());
  }

  template <size_t... kVector>
  void add_vectors(const BlockRow& row, int64_t lane, Vector factors, RowSums& sums,
                   std::index_sequence<kVector...> /*vectors*/) const {
    (add_vector<kVector>(row, lane + static_cast<int64_t>(kVector) * vector_lanes(), factors, sums),
     ...);
  }

  template <size_t kVector>
  void add_vector(const BlockRow& row, int64_t lane, Vector factors, RowSums& sums) const {
    const Vector products = products_(load(row, lane), lane);
    const Vector spread = spread_(factors, kVector);
    kVector % 2 == 0 ? sums.add_even(products, spread) : sums.add_odd(products, spread);
  }

  static auto load(const BlockRow& row, int64_t lane) {
    const std::byte* from = row.codes + lane * kLaneBytes<kBits>;
    if constexpr (kWidens) {
      return from;
    } else {
      const int64_t end = (lane + lanes()) * kLaneBytes<kBits>;
      const bool fits = kLaneBytes<kBits> == 4 || end + 4 <= row.count * kBits / 8;
      return fits ? load_words<kBits>(from) : load_part<kBits>(from, lanes());
    }
  }

  // Adds the last `count` groups.
  void add_part(const Chunk& chunk, int64_t at, int64_t count, RowSums& sums) const {
    const PartialVector partial(count);
    const Vector all =
        factors(chunk, at, sums, [&](const float* from) { return partial.load(from); });
    int64_t lane = (chunk.first + at) * kGroupLanes, v = 0;
    const int64_t end = lane + count * kGroupLanes;
    for (; lane + vector_lanes() <= end; lane += vector_lanes(), ++v)
      sums.add_even(products_(load(chunk.row, lane), lane), spread_(all, v));
    if constexpr (!kWidens) {
      if (lane == end) return;
      const Words words = load_part<kBits>(chunk.row.codes + lane * kLaneBytes<kBits>, end - lane);
      sums.add_even(products_(words, lane), spread_(all, v));
    }
  }

  const Products& products_;
  GroupSpread<kVectors> spread_;
};

#else

// Leaves all products to dot_each_row(), one by one.
template <class Products>
class GroupDots {
 public:
  explicit GroupDots(const Products& /*products*/) {}
  float operator()(const BlockRow& /*row*/) const { return 0; }
};

#endif

// Products of the codes from `begin` on, one by one. `Products` also has number(code) and
// activation(i).
template <class Products>
float dot_one_by_one(const BlockRow& row, int64_t begin, const Products& products) {
  float sum = 0;
  for (int64_t i = begin; i < row.count; ++i) {
    const int64_t block = i / row.block;
    const float offset =
        (row.offsets ? row.offsets[block] : 0.0f) - static_cast<float>(products.center());
    const float number = products.number(code_at<Products::kBits>(row.codes, i));
    const Affine affine{row.scales ? row.scales[block] : 1.0f, offset};
    sum += affine(number) * products.activation(i);
  }
  return sum;
}

template <class Products>
void dot_each_row(const BlockRows& rows, const Products& products, float* out) {
  constexpr bool kScalar = HWY_TARGET == HWY_SCALAR;
  BlockRow row = rows.first;
  const GroupDots<Products> dot_groups(products);
  const int64_t whole = kScalar ? 0 : row.count / kTokenGroup * kTokenGroup;
  const int64_t blocks = (row.count + row.block - 1) / row.block;
  for (int64_t r = 0; r < rows.rows; ++r) {
    out[r] = dot_groups(row) + dot_one_by_one(row, whole, products);
    row.codes += rows.row_bytes;
    if (row.scales) row.scales += blocks;
    if (row.offsets) row.offsets += blocks;
  }
}

}  // namespace moec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
