#include <cstring>

#include "backends/weights/views/convert_kernels.h"
#include "backends/weights/views/pack_bits.h"

// Highway compiles this file once per vector target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/weights/views/convert_vectors.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace moec::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

const ConvertKernels& target_kernels() { return portable_kernels(); }

#else

// These kernels process whole vectors; the portable kernels process the rest.
namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Ints = hn::Rebind<int32_t, Floats>;
using Shorts = hn::Rebind<int16_t, Floats>;
using Words = hn::Rebind<uint16_t, Floats>;
using Vector = hn::Vec<Floats>;
using Integers = hn::Vec<Ints>;

size_t whole(size_t count, size_t lanes) { return count / lanes * lanes; }
size_t lanes() { return hn::Lanes(Floats()); }

auto load_words(const std::byte* from, size_t index) {
  return hn::LoadU(Words(), reinterpret_cast<const uint16_t*>(from + 2 * index));
}

void store_words(hn::Vec<Words> words, std::byte* to, size_t index) {
  hn::StoreU(words, Words(), reinterpret_cast<uint16_t*>(to + 2 * index));
}

Integers bits_of(Vector values) { return hn::BitCast(Ints(), values); }
Integers magnitude_of(Vector values) {
  return hn::And(bits_of(values), hn::Set(Ints(), 0x7fffffff));
}
Integers sign_of(Vector values) {
  const hn::RebindToUnsigned<Ints> d;
  return hn::BitCast(
      Ints(), hn::And(hn::ShiftRight<16>(hn::BitCast(d, values)), hn::Set(d, uint32_t{0x8000})));
}

// Returns true if no lane is set. Without mask registers, testing 16-bit lanes costs more than
// testing their bytes.
template <class D, class M>
bool is_empty(D d, M mask) {
#if HWY_TARGET <= HWY_AVX3
  return hn::AllFalse(d, mask);
#else
  const hn::Repartition<uint8_t, D> bytes;
  return hn::AllFalse(bytes, hn::MaskFromVec(hn::BitCast(bytes, hn::VecFromMask(d, mask))));
#endif
}

// Counts the lanes of a mask, which is almost always empty: a test costs less than a count.
template <class D, class M>
uint64_t count_true(D d, M mask) {
  return is_empty(d, mask) ? 0 : hn::CountTrue(d, mask);
}

// Returns true if no lane is an infinity or a NaN of f16. Most elements are finite, so testing them
// at once lets callers use the CPU's conversion.
[[maybe_unused]] bool all_finite(hn::Vec<Words> f16) {
  const Shorts d;
  const auto magnitude = hn::And(hn::BitCast(d, f16), hn::Set(d, 0x7fff));
  return is_empty(d, hn::Gt(magnitude, hn::Set(d, 0x7bff)));
}

// As wide_from_f16() of the portable kernels. The CPU's conversion turns signalling NaNs into quiet
// ones; the definition (ir/graph/scalar.h) preserves their bits.
Vector wide_from_f16(hn::Vec<Words> bits) {
  const Integers wide = hn::PromoteTo(Ints(), bits);
  const Integers magnitude = hn::ShiftLeft<13>(hn::And(wide, hn::Set(Ints(), 0x7fff)));
  const Integers sign = hn::ShiftLeft<16>(hn::And(wide, hn::Set(Ints(), 0x8000)));
  const Vector scaled = hn::Mul(hn::BitCast(Floats(), magnitude), hn::Set(Floats(), 0x1p112f));
  const auto is_special = hn::Gt(magnitude, hn::Set(Ints(), 0x0f7fffff));
  const Integers special = hn::Or(magnitude, hn::Set(Ints(), 0x7f800000));
  return hn::BitCast(Floats(), hn::Or(sign, hn::IfThenElse(is_special, special, bits_of(scaled))));
}

void decode_f16(const std::byte* from, size_t count, float* to) {
  const size_t end = whole(count, lanes());
  for (size_t i = 0; i < end; i += lanes()) {
    const auto bits = load_words(from, i);
#if HWY_TARGET <= HWY_AVX2
    if (all_finite(bits)) {
      const hn::Rebind<hwy::float16_t, Floats> d;
      hn::StoreU(hn::PromoteTo(Floats(), hn::BitCast(d, bits)), Floats(), to + i);
      continue;
    }
#endif
    hn::StoreU(wide_from_f16(bits), Floats(), to + i);
  }
  portable_kernels().decode_f16(from + 2 * end, count - end, to + end);
}

void decode_bf16(const std::byte* from, size_t count, float* to) {
  const size_t end = whole(count, lanes());
  for (size_t i = 0; i < end; i += lanes()) {
    const Integers wide = hn::PromoteTo(Ints(), load_words(from, i));
    hn::StoreU(hn::BitCast(Floats(), hn::ShiftLeft<16>(wide)), Floats(), to + i);
  }
  portable_kernels().decode_bf16(from + 2 * end, count - end, to + end);
}

void decode_f8_e4m3(const std::byte* from, size_t count, float* to) {
  const float* table = f8_e4m3_table().data();
  const size_t end = whole(count, lanes());
  for (size_t i = 0; i < end; i += lanes()) {
    const hn::Rebind<uint8_t, Floats> d;
    const auto bytes = hn::LoadU(d, reinterpret_cast<const uint8_t*>(from + i));
    // The table has 1 KiB, which fits in the L1 cache.
    hn::StoreU(hn::GatherIndex(Floats(), table, hn::PromoteTo(Ints(), bytes)), Floats(), to + i);
  }
  portable_kernels().decode_f8_e4m3(from + end, count - end, to + end);
}

// As narrow_to_f16() of the portable kernels. The CPU's conversion keeps part of a NaN's bits; the
// definition (ir/graph/scalar.h) has a single NaN per sign.
Integers narrow_to_f16(Integers magnitude) {
  const Ints d;
  const Integers odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d, 1));
  const Integers normal =
      hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, hn::Set(d, 0xfff - 0x38000000)), odd));
  const Vector shifted = hn::Add(hn::BitCast(Floats(), magnitude), hn::Set(Floats(), 0.5f));
  const Integers tiny = hn::Sub(bits_of(shifted), hn::Set(d, 0x3f000000));
  const Integers finite = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0x38800000)), tiny, normal);
  const Integers special = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, 0x7f800000)),
                                          hn::Set(d, 0x7e00), hn::Set(d, 0x7c00));
  return hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0x477ff000)), finite, special);
}

// Rounds to nearest, ties to even: adds half a unit, less one if the last kept bit is 0. The sum is
// unsigned, because that of the largest NaNs exceeds int32_t.
Integers narrow_to_bf16(Integers magnitude) {
  const hn::RebindToUnsigned<Ints> d;
  const auto upper = hn::ShiftRight<16>(hn::BitCast(d, magnitude));
  const auto half = hn::Add(hn::And(upper, hn::Set(d, 1u)), hn::Set(d, 0x7fffu));
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::BitCast(d, magnitude), half));
  const auto nan = hn::Or(upper, hn::Set(d, 0x40u));
  const auto is_nan = hn::Gt(magnitude, hn::Set(Ints(), 0x7f800000));
  return hn::IfThenElse(is_nan, hn::BitCast(Ints(), nan), hn::BitCast(Ints(), rounded));
}

// Stores 16 bits per value, `bits` and the sign. Returns the number of finite values that became
// `infinity`.
uint64_t store_narrow(Vector values, Integers bits, int32_t infinity, std::byte* to, size_t index) {
  const auto finite = hn::Lt(magnitude_of(values), hn::Set(Ints(), 0x7f800000));
  const auto infinite = hn::Eq(bits, hn::Set(Ints(), infinity));
  store_words(hn::DemoteTo(Words(), hn::Or(bits, sign_of(values))), to, index);
  return count_true(Ints(), hn::And(finite, infinite));
}

uint64_t encode_f16(const float* from, size_t count, std::byte* to) {
  const size_t end = whole(count, lanes());
  uint64_t overflows = 0;
  for (size_t i = 0; i < end; i += lanes()) {
    const Vector values = hn::LoadU(Floats(), from + i);
#if HWY_TARGET <= HWY_AVX2
    const hn::Rebind<hwy::float16_t, Floats> d;
    const auto bits = hn::BitCast(Words(), hn::DemoteTo(d, values));
    if (all_finite(bits)) {
      store_words(bits, to, i);
      continue;
    }
#endif
    overflows += store_narrow(values, narrow_to_f16(magnitude_of(values)), 0x7c00, to, i);
  }
  return overflows + portable_kernels().encode_f16(from + end, count - end, to + 2 * end);
}

uint64_t encode_bf16(const float* from, size_t count, std::byte* to) {
  const size_t end = whole(count, lanes());
  uint64_t overflows = 0;
  for (size_t i = 0; i < end; i += lanes()) {
    const Vector values = hn::LoadU(Floats(), from + i);
    overflows += store_narrow(values, narrow_to_bf16(magnitude_of(values)), 0x7f80, to, i);
  }
  return overflows + portable_kernels().encode_bf16(from + end, count - end, to + 2 * end);
}

// Multiplies a vector in place. Returns the number of finite values that became infinite.
uint64_t multiply_lanes(float* values, Vector factors) {
  const Ints d;
  const auto infinity = hn::Set(d, 0x7f800000);
  const Vector before = hn::LoadU(Floats(), values), after = hn::Mul(before, factors);
  hn::StoreU(after, Floats(), values);
  return hn::CountTrue(
      d, hn::And(hn::Lt(magnitude_of(before), infinity), hn::Eq(magnitude_of(after), infinity)));
}

uint64_t scale(float factor, float* values, size_t count) {
  const size_t end = whole(count, lanes());
  uint64_t overflows = 0;
  for (size_t i = 0; i < end; i += lanes())
    overflows += multiply_lanes(values + i, hn::Set(Floats(), factor));
  return overflows + portable_kernels().scale(factor, values + end, count - end);
}

uint64_t multiply(const float* factors, float* values, size_t count) {
  const size_t end = whole(count, lanes());
  uint64_t overflows = 0;
  for (size_t i = 0; i < end; i += lanes())
    overflows += multiply_lanes(values + i, hn::LoadU(Floats(), factors + i));
  return overflows + portable_kernels().multiply(factors + end, values + end, count - end);
}

// Counts elements of whole vectors. Magnitudes are never negative, so signed comparisons suffice.
template <class D, class T = hn::TFromD<D> >
uint64_t count_from_least(D d, const std::byte* values, size_t end, T least) {
  const auto all = hn::Set(d, hwy::LimitsMax<T>()), below = hn::Set(d, static_cast<T>(least - 1));
  uint64_t found = 0;
  for (size_t i = 0; i < end; i += hn::Lanes(d)) {
    const auto bits = hn::LoadU(d, reinterpret_cast<const T*>(values + i * sizeof(T)));
    found += count_true(d, hn::Gt(hn::And(bits, all), below));
  }
  return found;
}

uint64_t count_from_16(const std::byte* values, size_t count, uint16_t least) {
  const hn::ScalableTag<int16_t> d;
  const size_t end = whole(count, hn::Lanes(d));
  return count_from_least(d, values, end, static_cast<int16_t>(least)) +
         portable_kernels().count_from_16(values + 2 * end, count - end, least);
}

uint64_t count_from_32(const std::byte* values, size_t count, uint32_t least) {
  const size_t end = whole(count, lanes());
  return count_from_least(Ints(), values, end, static_cast<int32_t>(least)) +
         portable_kernels().count_from_32(values + 4 * end, count - end, least);
}

const ConvertKernels& target_kernels() {
  static constexpr ConvertKernels kKernels = {HWY_STR(HWY_NAMESPACE),
                                              decode_f16,
                                              decode_bf16,
                                              decode_f8_e4m3,
                                              encode_f16,
                                              encode_bf16,
                                              scale,
                                              multiply,
                                              count_from_16,
                                              count_from_32};
  return kKernels;
}

#endif

}  // namespace
}  // namespace moec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moec {

HWY_EXPORT(target_kernels);

const ConvertKernels& best_kernels() { return HWY_DYNAMIC_DISPATCH(target_kernels)(); }

}  // namespace moec
#endif
