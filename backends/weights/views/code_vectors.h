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

#include <array>
#include <cstddef>
#include <cstdint>

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

// Looks up the 16 values of a block. Computing them once per block costs less than computing each
// element and gives the same bits. AVX2 and AVX-512 keep them in registers.
class Lookup {
 public:
  Lookup(const std::array<float, 16>& table, const Affine& affine) {
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
  std::array<float, 16> values_;
#endif
};

inline uint8_t nibble_at(const std::byte* codes, int64_t i) {
  return static_cast<uint8_t>(std::to_integer<int>(codes[i / 2]) >> (i % 2 * 4) & 15);
}

inline hn::Vec<Ints> load_codes(const uint8_t* from) {
  return hn::PromoteTo(Ints(), hn::LoadU(hn::Rebind<uint8_t, Floats>(), from));
}

}  // namespace moec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
