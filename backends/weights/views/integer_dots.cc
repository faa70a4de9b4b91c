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

// Codes as integer factors of the quantized activations.
template <int kCodeBits>
class IntegerProducts {
 public:
  static constexpr int kBits = kCodeBits;
  static constexpr int64_t kPlanes = integer_planes(kBits);
  explicit IntegerProducts(TokenCodes token) : token_(token) {}

  const float* scales() const { return token_.scales; }
  const float* sums() const { return token_.sums; }
  float activation(int64_t i) const {
    const int16_t code = token_.codes[i % kPlanes * token_.plane + i / kPlanes];
    return static_cast<float>(code) * token_.scales[i / kTokenGroup];
  }

 protected:
  TokenCodes token_;
};

#if HWY_TARGET != HWY_SCALAR
// Sums of products by 32-bit lane.
class IntegerSums {
 public:
  IntegerSums() { even_ = odd_ = hn::Zero(Ints()); }
  void add(hn::Vec<Shorts> integers, const int16_t* activations) {
    even_ = hn::ReorderWidenMulAccumulate(Ints(), integers, hn::LoadU(Shorts(), activations), even_,
                                          odd_);
  }
  Vector total() const { return hn::ConvertTo(Floats(), hn::Add(even_, odd_)); }

 private:
  hn::Vec<Ints> even_, odd_;
};

// integer(integral_constant) returns one integer for each half of a lane.
template <class Integer, size_t... kPlane>
Vector sum_planes(const TokenCodes& token, int64_t lane, const Integer& integer,
                  std::index_sequence<kPlane...> /*planes*/) {
  IntegerSums sums;
  (sums.add(integer(std::integral_constant<int, kPlane>()),
            token.codes + kPlane * token.plane + 2 * lane),
   ...);
  return sums.total();
}
#endif

class NibbleProducts : public IntegerProducts<4> {
 public:
  NibbleProducts(const LinearCodes& codes, TokenCodes token)
      : IntegerProducts<4>(token), codes_(codes) {}

  int center() const { return codes_.center; }
  float number(uint8_t code) const { return static_cast<float>(signed_number<4>(code, codes_)); }

#if HWY_TARGET != HWY_SCALAR
  Vector operator()(Words words, int64_t lane) const {
    const auto flipped = hn::BitCast(Shorts(), hn::Xor(words, flip_nibbles(codes_)));
    const auto integer = [&](auto plane) {
      return signed_field<4, plane.value>(Shorts(), flipped);
    };
    return sum_planes(token_, lane, integer, std::make_index_sequence<kPlanes>());
  }
#endif

 private:
  LinearCodes codes_;
};

template <bool kSigned>
class ByteProducts : public IntegerProducts<8>, public ByteCodes<kSigned> {
 public:
  explicit ByteProducts(TokenCodes token) : IntegerProducts<8>(token) {}

#if HWY_TARGET != HWY_SCALAR
  Vector operator()(const std::byte* codes, int64_t first) const {
    static_assert(HWY_LANES(int16_t) <= kTokenGroup);
    IntegerSums sums;
    for (int64_t i = 0; i < kTokenGroup; i += 2 * lanes())
      sums.add(ByteCodes<kSigned>::load(Shorts(), codes + i), token_.codes + first + i);
    return sums.total();
  }
#endif
};

class TableProducts : public IntegerProducts<4> {
 public:
  TableProducts(const NibbleIntegers& table, TokenCodes token)
      : IntegerProducts<4>(token), table_(table) {}

  static int center() { return 0; }
  float number(uint8_t code) const { return table_[code]; }

#if HWY_TARGET != HWY_SCALAR
  Vector operator()(Words words, int64_t lane) const {
    const Bytes d;
    const auto codes = hn::BitCast(d, words), low = hn::Set(d, uint8_t{15});
    const auto table = hn::BitCast(d, hn::LoadDup128(hn::RebindToSigned<Bytes>(), table_.data()));
    const auto high_codes = hn::And(
        hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(hn::RebindToUnsigned<Shorts>(), codes))), low);
    const auto even = hn::BitCast(Shorts(), hn::TableLookupBytes(table, hn::And(codes, low)));
    const auto odd = hn::BitCast(Shorts(), hn::TableLookupBytes(table, high_codes));
    // Code i of a half lane is in byte i / 2.
    const auto integer = [&](auto plane) {
      return signed_field<8, plane.value / 2>(Shorts(), plane.value % 2 == 0 ? even : odd);
    };
    return sum_planes(token_, lane, integer, std::make_index_sequence<kPlanes>());
  }
#endif

 private:
  NibbleIntegers table_;
};

void dot_linear(const CodeBlockRows& rows, const LinearCodes& codes, TokenCodes token, float* out) {
  if (codes.bits == 4) return dot_each_row(rows, NibbleProducts(codes, token), out);
  codes.flip == 0 ? dot_each_row(rows, ByteProducts<true>(token), out)
                  : dot_each_row(rows, ByteProducts<false>(token), out);
}

void dot_table(const CodeBlockRows& rows, const NibbleIntegers& table, TokenCodes token,
               float* out) {
  dot_each_row(rows, TableProducts(table, token), out);
}

}  // namespace
}  // namespace moec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moec {

HWY_EXPORT(dot_linear);
HWY_EXPORT(dot_table);

void dot_linear_rows(const CodeBlockRows& rows, const LinearCodes& codes, TokenCodes token,
                     float* out) {
  HWY_DYNAMIC_DISPATCH(dot_linear)(rows, codes, token, out);
}

void dot_table_rows(const CodeBlockRows& rows, const NibbleIntegers& table, TokenCodes token,
                    float* out) {
  HWY_DYNAMIC_DISPATCH(dot_table)(rows, table, token, out);
}

}  // namespace moec
#endif
