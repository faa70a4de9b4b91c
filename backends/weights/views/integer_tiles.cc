// Products of rows of codes with several quantized tokens.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/weights/views/code_kernels.h"

// Highway compiles this file once per vector target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/weights/views/integer_tiles.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/weights/views/code_vectors.h"
#include "backends/weights/views/partial_vector.h"

HWY_BEFORE_NAMESPACE();
namespace moec::HWY_NAMESPACE {
namespace {

using Words = hn::Vec<Ints>;  // four numbers, or four factors, per lane

// As many rows as a vector has lanes. Numbers are in the order of TokenCodeBlocks, with rows
// instead of tokens.
struct Tile {
  int64_t rows = 0, groups = 0;
  std::vector<int32_t> numbers;  // [groups, kGroupSteps, lanes], four unsigned bytes each
  std::vector<float> scales;     // [groups, lanes]
  std::vector<float> offsets;    // the same, times the scales; empty without offsets
};

// Codes of 4 bits as unsigned numbers, 2^kExcessBits above their own.
template <int kExcessBits>
struct NibbleNumbers {
  static constexpr int kBits = 4, kExcess = 1 << kExcessBits;
  int center = 0;
  HWY_ALIGN std::array<uint8_t, 16> table{};

  // The numbers of two steps, from a word per row.
  void store(const uint32_t* words, int32_t* to) const {
    for (const int shift : {0, 4}) {
#if HWY_TARGET == HWY_SCALAR
      uint32_t numbers = 0;
      for (int b = 0; b < 4; ++b)
        numbers |= uint32_t{table[words[0] >> (8 * b + shift) & 15]} << 8 * b;
      to[shift / 4] = static_cast<int32_t>(numbers);
#else
      const hn::RebindToUnsigned<Ints> d;
      const Bytes bytes;
      const auto codes =
          hn::And(hn::ShiftRightSame(hn::LoadU(d, words), shift), hn::Set(d, uint32_t{0x0F0F0F0F}));
      const auto numbers =
          hn::TableLookupBytes(hn::LoadDup128(bytes, table.data()), hn::BitCast(bytes, codes));
      hn::StoreU(hn::BitCast(Ints(), numbers), Ints(), to + shift / 4 * lanes());
#endif
    }
  }
};

struct ByteNumbers {
  static constexpr int kBits = 8, kExcess = 128;
  int center = 0;
  uint32_t flip = 0;  // of each byte

  // The numbers of one step.
  void store(const uint32_t* words, int32_t* to) const {
    const hn::RebindToUnsigned<Ints> d;
    hn::StoreU(hn::BitCast(Ints(), hn::Xor(hn::LoadU(d, words), hn::Set(d, flip))), Ints(), to);
  }
};

// Words of codes in a group, and the steps of one of them.
template <class Numbers>
constexpr int64_t kGroupWords = Numbers::kBits;
template <class Numbers>
constexpr int64_t kWordSteps = kGroupSteps / kGroupWords<Numbers>;

// Sets the numbers of group `g`.
template <class Numbers>
void set_numbers(const BlockRows& rows, int64_t first, int64_t g, const Numbers& numbers,
                 Tile& tile) {
  constexpr int64_t kBytes = 4 * kGroupWords<Numbers>;
  const int64_t bytes = (rows.first.count * Numbers::kBits + 7) / 8;
  const auto count = static_cast<size_t>(std::min(kBytes, bytes - g * kBytes));
  uint32_t words[kGroupWords<Numbers>][HWY_LANES(float)] = {};
  for (int64_t row = 0; row < tile.rows; ++row) {
    std::array<uint32_t, kGroupWords<Numbers>> from{};
    std::memcpy(from.data(), rows.first.codes + (first + row) * rows.row_bytes + g * kBytes, count);
    for (size_t w = 0; w < from.size(); ++w) words[w][row] = from[w];
  }
  int32_t* to = tile.numbers.data() + g * kGroupSteps * lanes();
  for (const auto& word : words) {
    numbers.store(word, to);
    to += kWordSteps<Numbers> * lanes();
  }
}

// Numbers and offsets are counted from a center, because two large sums would cancel and lose bits.
void set_factors(const BlockRows& rows, int64_t first, int center, Tile& tile) {
  const BlockRow& of = rows.first;
  const int64_t blocks = (of.count + of.block - 1) / of.block;
  const bool has_offsets = of.offsets != nullptr || center != 0;
  tile.scales.assign(static_cast<size_t>(tile.groups * lanes()), 1.0f);
  tile.offsets.assign(has_offsets ? tile.scales.size() : 0, 0.0f);
  for (int64_t row = 0; row < tile.rows; ++row)
    for (int64_t g = 0; g < tile.groups; ++g) {
      const int64_t block = (first + row) * blocks + g * kTokenGroup / of.block;
      const auto at = static_cast<size_t>(g * lanes() + row);
      if (of.scales) tile.scales[at] = of.scales[block];
      if (!has_offsets) continue;
      const float offset = (of.offsets ? of.offsets[block] : 0.0f) - static_cast<float>(center);
      tile.offsets[at] = offset * tile.scales[at];
    }
}

template <class Numbers>
void set_tile(const BlockRows& rows, int64_t first, const Numbers& numbers, Tile& tile) {
  tile.rows = std::min(lanes(), rows.rows - first);
  tile.groups = (rows.first.count + kTokenGroup - 1) / kTokenGroup;
  tile.numbers.resize(static_cast<size_t>(tile.groups * kGroupSteps * lanes()));
  for (int64_t g = 0; g < tile.groups; ++g) set_numbers(rows, first, g, numbers, tile);
  set_factors(rows, first, numbers.center, tile);
}

// Four factors of a step.
using Factors = std::array<int8_t, 4>;

Words spread(const Factors& factors) { return hn::Set(Ints(), std::bit_cast<int32_t>(factors)); }

// Adds, to each lane, the four products of unsigned numbers and signed factors.
template <class Numbers, bool kVnni>
struct VectorSums {
  static Words add(Words sums, Words numbers, const Factors& of) {
#if HWY_TARGET == HWY_AVX3
    if constexpr (kVnni) {
      asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sums.raw) : "v"(numbers.raw), "m"(of));
      return sums;
    }
#endif
    const Words factors = spread(of);
#if HWY_TARGET <= HWY_SSSE3
    if constexpr (Numbers::kBits == 4) {
      const auto pairs =
          multiply_pairs(hn::BitCast(Bytes(), numbers), hn::BitCast(SignedBytes(), factors));
      // On x86, a lane is the sum of two products of this lane.
      auto unused = hn::Zero(Ints());
      return hn::ReorderWidenMulAccumulate(Ints(), pairs, hn::Set(Shorts(), 1), sums, unused);
    }
#endif
    const auto product = [](Words number, Words factor) {
      return hn::Mul(hn::And(number, hn::Set(Ints(), 255)), hn::ShiftRight<24>(factor));
    };
    sums = hn::Add(sums, product(numbers, hn::ShiftLeft<24>(factors)));
    sums = hn::Add(sums, product(hn::ShiftRight<8>(numbers), hn::ShiftLeft<16>(factors)));
    sums = hn::Add(sums, product(hn::ShiftRight<16>(numbers), hn::ShiftLeft<8>(factors)));
    return hn::Add(sums, product(hn::ShiftRight<24>(numbers), factors));
  }
};

// Multiplies the rows by a block of tokens. Groups are added in order, so a product depends on its
// row and its token alone.
template <class Sums>
void multiply_block(const Tile& tile, int excess, const TokenCodeBlocks& tokens, int64_t block,
                    TokenProducts out) {
  const Floats d;
  const int64_t first = block * tokens.groups * kTokenBlock;
  const Factors* factors = tokens.factors + first * kGroupSteps;
  const int32_t* numbers = tile.numbers.data();
  Vector sums[kTokenBlock];
  HWY_UNROLL(4)
  for (auto& sum : sums) sum = hn::Zero(d);
  for (int64_t g = 0; g < tile.groups; ++g) {
    const int64_t at = first + g * kTokenBlock;
    Words products[kTokenBlock];
    HWY_UNROLL(4)
    for (int64_t t = 0; t < kTokenBlock; ++t)
      products[t] = hn::Set(Ints(), -excess * tokens.factor_sums[at + t]);
    for (int64_t s = 0; s < kGroupSteps; ++s, numbers += lanes(), factors += kTokenBlock) {
      const Words step = hn::LoadU(Ints(), numbers);
      HWY_UNROLL(4)
      for (int64_t t = 0; t < kTokenBlock; ++t)
        products[t] = Sums::add(products[t], step, factors[t]);
    }
    const Vector scales = hn::LoadU(d, tile.scales.data() + g * lanes());
    HWY_UNROLL(4)
    for (int64_t t = 0; t < kTokenBlock; ++t)
      sums[t] = hn::MulAdd(hn::ConvertTo(d, products[t]),
                           hn::Mul(scales, hn::Set(d, tokens.scales[at + t])), sums[t]);
    if (tile.offsets.empty()) continue;
    const Vector offsets = hn::LoadU(d, tile.offsets.data() + g * lanes());
    HWY_UNROLL(4)
    for (int64_t t = 0; t < kTokenBlock; ++t)
      sums[t] = hn::NegMulAdd(offsets, hn::Set(d, tokens.sums[at + t]), sums[t]);
  }
  const PartialVector rows(tile.rows);
  const int64_t count = tokens.count - block * kTokenBlock;
  HWY_UNROLL(4)
  for (int64_t t = 0; t < kTokenBlock; ++t) {
    if (t >= count) break;
    float* to = out.to + (block * kTokenBlock + t) * out.stride;
    tile.rows == lanes() ? hn::StoreU(sums[t], d, to) : rows.store(sums[t], to);
  }
}

template <class Sums, class Numbers>
void multiply_tiles(const BlockRows& rows, const Numbers& numbers, const TokenCodeBlocks& tokens,
                    TokenProducts out) {
  thread_local Tile tile;
  for (int64_t first = 0; first < rows.rows; first += lanes()) {
    set_tile(rows, first, numbers, tile);
    for (int64_t block = 0; block * kTokenBlock < tokens.count; ++block)
      multiply_block<Sums>(tile, Numbers::kExcess, tokens, block, {out.to + first, out.stride});
  }
}

template <class Numbers>
void multiply_rows(const BlockRows& rows, const Numbers& numbers, const TokenCodeBlocks& tokens,
                   TokenProducts out) {
  with_vnni([&](auto has_vnni) {
    multiply_tiles<VectorSums<Numbers, has_vnni>>(rows, numbers, tokens, out);
  });
}

void multiply_linear(const BlockRows& rows, const LinearCodes& codes, const TokenCodeBlocks& tokens,
                     TokenProducts out) {
  // A number in two's complement is half of the range less than its bits with the sign inverted.
  if (codes.bits == 8) {
    const uint32_t flip = codes.flip ^ 0x80;
    return multiply_rows(rows, ByteNumbers{codes.center, flip * 0x01010101}, tokens, out);
  }
  NibbleNumbers<3> numbers{codes.center};
  for (uint8_t code = 0; code < 16; ++code) numbers.table[code] = code ^ codes.flip ^ 8;
  multiply_rows(rows, numbers, tokens, out);
}

void multiply_table(const BlockRows& rows, const NibbleIntegers& table,
                    const TokenCodeBlocks& tokens, TokenProducts out) {
  NibbleNumbers<5> numbers;
  std::transform(table.begin(), table.end(), numbers.table.begin(), [](int8_t entry) {
    return static_cast<uint8_t>(entry + NibbleNumbers<5>::kExcess);
  });
  multiply_rows(rows, numbers, tokens, out);
}

float quantize(const float* values, int64_t count, int8_t* factors) {
  const Floats d;
  HWY_ALIGN float group[kTokenGroup] = {};
  std::copy_n(values, count, group);
  auto magnitudes = hn::Zero(Ints());
  // Without their sign, the bits of floats are ordered as their magnitudes are, NaN above all.
  for (int64_t i = 0; i < kTokenGroup; i += lanes())
    magnitudes = hn::Max(magnitudes, hn::BitCast(Ints(), hn::Abs(hn::Load(d, group + i))));
  const float largest = hn::GetLane(hn::BitCast(d, hn::MaxOfLanes(Ints(), magnitudes)));
  std::fill_n(factors, count, int8_t{0});
  if (!std::isfinite(largest)) return std::numeric_limits<float>::quiet_NaN();
  // Below this, 127 / largest may overflow.
  if (largest < 127 * std::numeric_limits<float>::min()) return largest / 127;
  HWY_ALIGN int8_t nearest[kTokenGroup];
  for (int64_t i = 0; i < kTokenGroup; i += lanes()) {
    const auto integers =
        hn::NearestInt(hn::Mul(hn::Load(d, group + i), hn::Set(d, 127 / largest)));
    hn::StoreU(hn::DemoteTo(hn::Rebind<int8_t, Ints>(), integers), hn::Rebind<int8_t, Ints>(),
               nearest + i);
  }
  std::copy_n(nearest, count, factors);
  return largest / 127;
}

}  // namespace
}  // namespace moec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moec {

HWY_EXPORT(multiply_linear);
HWY_EXPORT(multiply_table);
HWY_EXPORT(quantize);

void multiply_linear_rows(const BlockRows& rows, const LinearCodes& codes,
                          const TokenCodeBlocks& tokens, TokenProducts out) {
  HWY_DYNAMIC_DISPATCH(multiply_linear)(rows, codes, tokens, out);
}

void multiply_table_rows(const BlockRows& rows, const NibbleIntegers& table,
                         const TokenCodeBlocks& tokens, TokenProducts out) {
  HWY_DYNAMIC_DISPATCH(multiply_table)(rows, table, tokens, out);
}

float quantize_group(const float* values, int64_t count, int8_t* factors) {
  return HWY_DYNAMIC_DISPATCH(quantize)(values, count, factors);
}

}  // namespace moec
#endif
