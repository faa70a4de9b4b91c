#include "backends/weights/encode/affine_kernels.h"

// Highway compiles this file once per vector target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/weights/encode/affine_vectors.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace moec::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

const AffineKernels& target_kernels() { return portable_affine(); }

#else

// These kernels process whole vectors; the portable kernels process the rest. No multiply-add may
// be fused, because the portable kernels round twice.
namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Ints = hn::Rebind<int32_t, Floats>;
using Bytes = hn::Rebind<uint8_t, Floats>;
using Vector = hn::Vec<Floats>;
using Integers = hn::Vec<Ints>;

size_t lanes() { return hn::Lanes(Floats()); }
size_t whole(size_t count) { return count / lanes() * lanes(); }

// An AffineRule broadcast to all lanes.
struct Rule {
  explicit Rule(const AffineRule& rule) {
    const Floats d;
    inverse = hn::Set(d, rule.inverse);
    low = hn::Set(d, rule.low);
    high = hn::Set(d, rule.high);
    zero = hn::Set(d, rule.zero);
  }
  Vector inverse, low, high, zero;
};

// As AffineRule::number(), but without rounding: add() rounds to floats, stored() to integers.
Vector limited(Vector values, const Rule& rule) {
  const Vector goal = hn::Add(hn::Mul(values, rule.inverse), rule.zero);
  return hn::Min(hn::Max(goal, rule.low), rule.high);
}

AffineExtent extent_of(const float* values, size_t count) {
  const Floats d;
  const size_t end = whole(count);
  // Both start at 0, because the extent includes 0.
  Vector low = hn::Zero(d), high = hn::Zero(d);
  for (size_t i = 0; i < end; i += lanes()) {
    const Vector more = hn::LoadU(d, values + i);
    low = hn::Min(low, more);
    high = hn::Max(high, more);
  }
  const AffineExtent rest = portable_affine().extent(values + end, count - end);
  return {std::min(rest.low, hn::GetLane(hn::MinOfLanes(d, low))),
          std::max(rest.high, hn::GetLane(hn::MaxOfLanes(d, high)))};
}

// The vectors of AffineSums.
class Sums {
  static constexpr size_t kParts = AffineSums::kLanes / HWY_LANES(float);

 public:
  Sums() {
    for (size_t part = 0; part < kParts; ++part)
      products_[part] = squares_[part] = hn::Zero(Floats());
  }

  void add(const float* values, const Rule& rule) {
    for (size_t part = 0; part < kParts; ++part) {
      const Vector of = hn::LoadU(Floats(), values + part * lanes());
      const Vector steps = hn::Sub(hn::Round(limited(of, rule)), rule.zero);
      products_[part] = hn::Add(products_[part], hn::Mul(steps, of));
      squares_[part] = hn::Add(squares_[part], hn::Mul(steps, steps));
    }
  }

  AffineSums stored() const {
    AffineSums sums;
    for (size_t part = 0; part < kParts; ++part) {
      hn::StoreU(products_[part], Floats(), sums.products.data() + part * lanes());
      hn::StoreU(squares_[part], Floats(), sums.squares.data() + part * lanes());
    }
    return sums;
  }

 private:
  Vector products_[kParts], squares_[kParts];
};

AffineFit fit_of(const float* values, size_t count, const AffineRule& rule) {
  const size_t end = count / AffineSums::kLanes * AffineSums::kLanes;
  const Rule broadcast(rule);
  Sums vectors;
  for (size_t i = 0; i < end; i += AffineSums::kLanes) vectors.add(values + i, broadcast);
  AffineSums sums = vectors.stored();
  for (size_t i = end; i < count; ++i) sums.add(i - end, values[i], rule);
  return sums.total();
}

void encode(const float* values, size_t count, const AffineRule& rule, const AffineCodes& codes,
            uint8_t* to) {
  const Ints d;
  const size_t end = whole(count);
  const Rule broadcast(rule);
  const Integers mask = hn::Set(d, static_cast<int32_t>(codes.mask())),
                 turned = hn::Set(d, static_cast<int32_t>(codes.turned()));
  for (size_t i = 0; i < end; i += lanes()) {
    const Integers numbers = hn::NearestInt(limited(hn::LoadU(Floats(), values + i), broadcast));
    const Integers stored = hn::Xor(hn::And(numbers, mask), turned);
    const hn::RebindToUnsigned<Ints> wide;
    hn::StoreU(hn::U8FromU32(hn::BitCast(wide, stored)), Bytes(), to + i);
  }
  portable_affine().encode(values + end, count - end, rule, codes, to + end);
}

void decode(const uint8_t* stored, size_t count, const AffineCodes& codes, float scale, int zero,
            float* to) {
  const Ints d;
  const size_t end = whole(count);
  const Integers turned = hn::Set(d, static_cast<int32_t>(codes.turned())),
                 zeros = hn::Set(d, zero);
  const int above = 32 - codes.bits;
  const Vector scales = hn::Set(Floats(), scale);
  for (size_t i = 0; i < end; i += lanes()) {
    const Integers wide = hn::Xor(hn::PromoteTo(d, hn::LoadU(Bytes(), stored + i)), turned);
    // The shifts left and right extend the sign of a code of `bits` bits.
    const Integers numbers = hn::ShiftRightSame(hn::ShiftLeftSame(wide, above), above);
    const Vector steps = hn::ConvertTo(Floats(), hn::Sub(numbers, zeros));
    hn::StoreU(hn::Mul(steps, scales), Floats(), to + i);
  }
  portable_affine().decode(stored + end, count - end, codes, scale, zero, to + end);
}

const AffineKernels& target_kernels() {
  static constexpr AffineKernels kKernels = {HWY_STR(HWY_NAMESPACE), extent_of, fit_of, encode,
                                             decode};
  return kKernels;
}

#endif

}  // namespace
}  // namespace moec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moec {

HWY_EXPORT(target_kernels);

const AffineKernels& best_affine() { return HWY_DYNAMIC_DISPATCH(target_kernels)(); }

}  // namespace moec
#endif
