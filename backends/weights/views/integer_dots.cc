#include "backends/weights/views/code_kernels.h"

// Highway compiles this file once per vector target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/weights/views/integer_dots.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/weights/views/dot_rows.h"

HWY_BEFORE_NAMESPACE();
namespace moec::HWY_NAMESPACE {
namespace {

// Codes of 4 bits as unsigned numbers, 2^kExcessBits above their own. A lane sums 8 products.
template <int kExcessBits, bool kVnni>
class NibbleIntegerProducts {
 public:
  static constexpr int kBits = 4;
  explicit NibbleIntegerProducts(TokenCodes token) : token_(token) {}

  const float* scales() const { return token_.scales; }
  const float* sums() const { return token_.sums; }
  float activation(int64_t i) const {
    const int8_t code = token_.factors[i % 2 * token_.plane + i / 2];
    return static_cast<float>(code) * token_.scales[i / kTokenGroup];
  }

#if HWY_TARGET != HWY_SCALAR
 protected:
  // Products of the numbers of the codes in the low and in the high half of each byte.
  Vector sum_of(hn::Vec<Bytes> low, hn::Vec<Bytes> high, int64_t lane) const {
    const int8_t* factors = token_.factors + 4 * lane;
    const auto too_much = hn::ShiftLeft<kExcessBits>(hn::LoadU(Ints(), token_.lane_sums + lane));
    const Words sums = add(low, hn::LoadU(SignedBytes(), factors), high,
                           hn::LoadU(SignedBytes(), factors + token_.plane));
    return hn::ConvertTo(Floats(), hn::Sub(sums, too_much));
  }
#endif

 private:
#if HWY_TARGET != HWY_SCALAR
  // The sums, by lane, of the products of two vectors of numbers.
  static Words add(hn::Vec<Bytes> a, hn::Vec<SignedBytes> a_factors, hn::Vec<Bytes> b,
                   hn::Vec<SignedBytes> b_factors) {
#if HWY_TARGET == HWY_AVX3
    if constexpr (kVnni) {
      Words sums = hn::Zero(Ints());
      asm("vpdpbusd %2, %1, %0" : "+v"(sums.raw) : "v"(a.raw), "vm"(a_factors.raw));
      asm("vpdpbusd %2, %1, %0" : "+v"(sums.raw) : "v"(b.raw), "vm"(b_factors.raw));
      return sums;
    }
#endif
    const auto pairs = hn::Add(multiply_pairs(a, a_factors), multiply_pairs(b, b_factors));
    auto other_half = hn::Zero(Ints());
    const Words sums = hn::ReorderWidenMulAccumulate(Ints(), pairs, hn::Set(Shorts(), 1),
                                                     hn::Zero(Ints()), other_half);
    return hn::Add(sums, other_half);
  }
#endif

  TokenCodes token_;
};

#if HWY_TARGET != HWY_SCALAR
// The codes in the halves of each byte.
struct Halves {
  explicit Halves(Words words) {
    const Bytes d;
    const auto bytes = hn::BitCast(d, words), mask = hn::Set(d, uint8_t{15});
    low = hn::And(bytes, mask);
    const hn::RebindToUnsigned<Shorts> shorts;
    high = hn::And(hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(shorts, bytes))), mask);
  }
  hn::Vec<Bytes> low, high;
};
#endif

template <bool kVnni>
class NibbleProducts : public NibbleIntegerProducts<3, kVnni> {
 public:
  NibbleProducts(const LinearCodes& codes, TokenCodes token)
      : NibbleIntegerProducts<3, kVnni>(token), codes_(codes) {}

  int center() const { return codes_.center; }
  float number(uint8_t code) const { return static_cast<float>(signed_number<4>(code, codes_)); }

#if HWY_TARGET != HWY_SCALAR
  // A number in two's complement is 8 less than its bits with the sign inverted.
  Vector operator()(Words words, int64_t lane) const {
    const LinearCodes unsigned_codes{4, static_cast<uint8_t>(codes_.flip ^ 8), 0};
    const Halves halves(hn::Xor(words, flip_nibbles(unsigned_codes)));
    return this->sum_of(halves.low, halves.high, lane);
  }
#endif

 private:
  LinearCodes codes_;
};

template <bool kVnni>
class TableProducts : public NibbleIntegerProducts<5, kVnni> {
 public:
  TableProducts(const NibbleIntegers& table, TokenCodes token)
      : NibbleIntegerProducts<5, kVnni>(token), table_(table) {
    for (size_t i = 0; i < table.size(); ++i)
      unsigned_[i] = static_cast<uint8_t>(table[i] + (1 << 5));
  }

  static int center() { return 0; }
  float number(uint8_t code) const { return table_[code]; }

#if HWY_TARGET != HWY_SCALAR
  Vector operator()(Words words, int64_t lane) const {
    const Halves halves(words);
    const auto table = hn::LoadDup128(Bytes(), unsigned_);
    return this->sum_of(hn::TableLookupBytes(table, halves.low),
                        hn::TableLookupBytes(table, halves.high), lane);
  }
#endif

 private:
  NibbleIntegers table_;
  HWY_ALIGN uint8_t unsigned_[16];
};

template <bool kSigned>
class ByteProducts : public ByteCodes<kSigned> {
 public:
  static constexpr int kBits = 8;
  explicit ByteProducts(TokenCodes token) : token_(token) {}

  const float* scales() const { return token_.scales; }
  const float* sums() const { return token_.sums; }
  float activation(int64_t i) const {
    return static_cast<float>(token_.factors[i]) * token_.scales[i / kTokenGroup];
  }

#if HWY_TARGET != HWY_SCALAR
  Vector operator()(const std::byte* codes, int64_t first) const {
    static_assert(HWY_LANES(int16_t) <= kTokenGroup);
    auto even = hn::Zero(Ints()), odd = hn::Zero(Ints());
    for (int64_t i = 0; i < kTokenGroup; i += 2 * lanes())
      even = hn::ReorderWidenMulAccumulate(
          Ints(), ByteCodes<kSigned>::load(Shorts(), codes + i),
          hn::PromoteTo(Shorts(),
                        hn::LoadU(hn::Rebind<int8_t, Shorts>(), token_.factors + first + i)),
          even, odd);
    return hn::ConvertTo(Floats(), hn::Add(even, odd));
  }
#endif

 private:
  TokenCodes token_;
};

void dot_linear(const BlockRows& rows, const LinearCodes& codes, TokenCodes token, float* out) {
  if (codes.bits == 4)
    return with_vnni(
        [&](auto has_vnni) { dot_each_row(rows, NibbleProducts<has_vnni>(codes, token), out); });
  codes.flip == 0 ? dot_each_row(rows, ByteProducts<true>(token), out)
                  : dot_each_row(rows, ByteProducts<false>(token), out);
}

void dot_table(const BlockRows& rows, const NibbleIntegers& table, TokenCodes token, float* out) {
  with_vnni([&](auto has_vnni) { dot_each_row(rows, TableProducts<has_vnni>(table, token), out); });
}

}  // namespace
}  // namespace moec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moec {

HWY_EXPORT(dot_linear);
HWY_EXPORT(dot_table);

void dot_linear_rows(const BlockRows& rows, const LinearCodes& codes, TokenCodes token,
                     float* out) {
  HWY_DYNAMIC_DISPATCH(dot_linear)(rows, codes, token, out);
}

void dot_table_rows(const BlockRows& rows, const NibbleIntegers& table, TokenCodes token,
                    float* out) {
  HWY_DYNAMIC_DISPATCH(dot_table)(rows, table, token, out);
}

}  // namespace moec
#endif
