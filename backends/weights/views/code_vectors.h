// Parts of the kernels that read codes: Highway types, the values of a block, 4-bit codes.
//
// Highway compiles the files that include this one once per vector target, hence the guard.
#if defined(MOEC_BACKENDS_WEIGHTS_VIEWS_CODE_VECTORS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MOEC_BACKENDS_WEIGHTS_VIEWS_CODE_VECTORS_H
#undef MOEC_BACKENDS_WEIGHTS_VIEWS_CODE_VECTORS_H
#else
#define MOEC_BACKENDS_WEIGHTS_VIEWS_CODE_VECTORS_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace moec::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Ints = hn::Rebind<int32_t, Floats>;
using Vector = hn::Vec<Floats>;

constexpr int64_t kNibbles = 32;  // per 16 bytes

inline int64_t lanes() { return static_cast<int64_t>(hn::Lanes(Floats())); }

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

// Looks up the values of codes of `kBits` bits. Computing them once per block costs less than
// computing each element and gives the same bits. They stay in registers if these suffice.
template <int kBits>
class Lookup {
  static constexpr int kEntries = 1 << kBits, kLanes = HWY_LANES(float);
  // On AVX2, a gather costs less than 8 permutations and 7 selections (a Zen 3 was measured); 4 of
  // 16 lanes cost less than a gather.
  static constexpr bool kPermutes = kEntries <= (kLanes >= 16 ? 4 : 2) * kLanes;
  static constexpr int kParts = kPermutes && kEntries > kLanes ? kEntries / kLanes : 1;

 public:
  Lookup(const float* values, const Affine& affine) {
    const Floats d;
    if constexpr (kEntries < kLanes) {
      HWY_ALIGN float padded[HWY_LANES(float)] = {};
      for (int i = 0; i < kEntries; ++i) padded[i] = affine(values[i]);
      parts_[0] = hn::Load(d, padded);
    } else if constexpr (kPermutes) {
      for (int part = 0; part < kParts; ++part)
        parts_[part] = affine(hn::LoadU(d, values + part * kLanes));
    } else {
      for (int i = 0; i < kEntries; i += kLanes)
        hn::StoreU(affine(hn::LoadU(d, values + i)), d, values_.data() + i);
    }
  }

  // With permutations, the bits above a code are ignored.
  Vector operator()(hn::Vec<Ints> code) const {
    if constexpr (kPermutes) {
      const auto lane = hn::And(code, hn::Set(Ints(), std::min(kEntries, kLanes) - 1));
      return select<0, kParts>(hn::IndicesFromVec(Floats(), lane), code);
    } else {
      return hn::GatherIndex(Floats(), values_.data(), code);
    }
  }

 private:
  // Selects between halves of parts [kFirst, kFirst + kCount) by one bit of the code, which becomes
  // the sign.
  template <int kFirst, int kCount, class Indices>
  Vector select(Indices lane, hn::Vec<Ints> code) const {
    if constexpr (kCount == 1) {
      return hn::TableLookupLanes(parts_[kFirst], lane);
    } else {
      constexpr int kHalf = kCount / 2, kBit = std::bit_width(unsigned{kLanes * kHalf}) - 1;
      const auto bits = hn::ShiftLeft<31 - kBit>(code);
      return if_negative(bits, select<kFirst + kHalf, kHalf>(lane, code),
                         select<kFirst, kHalf>(lane, code));
    }
  }

  // IfNegativeThenElse() of Highway 1.0.3 reads all bits of a lane on SSSE3.
  static Vector if_negative(hn::Vec<Ints> bits, Vector yes, Vector no) {
#if HWY_TARGET <= HWY_SSE4
    return hn::IfNegativeThenElse(hn::BitCast(Floats(), bits), yes, no);
#else
    return hn::IfThenElse(hn::RebindMask(Floats(), hn::MaskFromVec(hn::BroadcastSignBit(bits))),
                          yes, no);
#endif
  }

  Vector parts_[kParts];
  std::array<float, kPermutes ? 1 : kEntries> values_;
};

inline uint8_t nibble_at(const std::byte* codes, int64_t i) {
  return static_cast<uint8_t>(std::to_integer<int>(codes[i / 2]) >> (i % 2 * 4) & 15);
}

inline hn::Vec<Ints> load_codes(const uint8_t* from) {
  return hn::PromoteTo(Ints(), hn::LoadU(hn::Rebind<uint8_t, Floats>(), from));
}

#if HWY_TARGET != HWY_SCALAR

using Shorts = hn::Repartition<int16_t, Ints>;
using Bytes = hn::Repartition<uint8_t, Ints>;
using SignedBytes = hn::Repartition<int8_t, Ints>;

// The sums of two neighbouring products. With numbers below 64, they fit in 16 bits, and so do
// those of two such sums: 4 · 63 · 127.
inline hn::Vec<Shorts> multiply_pairs(hn::Vec<Bytes> numbers, hn::Vec<SignedBytes> factors) {
#if HWY_TARGET <= HWY_AVX3
  return {_mm512_maddubs_epi16(numbers.raw, factors.raw)};
#elif HWY_TARGET == HWY_AVX2
  return {_mm256_maddubs_epi16(numbers.raw, factors.raw)};
#elif HWY_TARGET <= HWY_SSSE3
  return {_mm_maddubs_epi16(numbers.raw, factors.raw)};
#else
  const auto n = hn::BitCast(Shorts(), numbers), f = hn::BitCast(Shorts(), factors);
  const auto even =
      hn::Mul(hn::And(n, hn::Set(Shorts(), 255)), hn::ShiftRight<8>(hn::ShiftLeft<8>(f)));
  const auto odd = hn::Mul(hn::ShiftRight<8>(n), hn::ShiftRight<8>(f));
  return hn::Add(even, odd);
#endif
}

#endif

// Calls use(std::true_type()) if the CPU has the instruction vpdpbusd for 512-bit vectors, else
// use(std::false_type()). The target of Highway 1.0.3 that has it enables AVX-VNNI, which not all
// of its CPUs have; so kernels write the instruction out.
template <class Use>
void with_vnni(const Use& use) {
#if HWY_TARGET == HWY_AVX3
  static const bool has_vnni = __builtin_cpu_supports("avx512vnni");
  if (has_vnni) return use(std::true_type());
#endif
  use(std::false_type());
}

}  // namespace moec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
