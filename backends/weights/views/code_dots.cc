#include "backends/weights/views/code_kernels.h"

// Highway compiles this file once per vector target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/weights/views/code_dots.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/weights/views/dot_rows.h"

HWY_BEFORE_NAMESPACE();
namespace moec::HWY_NAMESPACE {
namespace {

// Codes as f32 factors of the activations.
template <int kCodeBits>
class FloatProducts {
 public:
  static constexpr int kBits = kCodeBits;
  explicit FloatProducts(TokenValues token) : token_(token) {}

  const float* scales() const { return nullptr; }
  const float* sums() const { return token_.sums; }
  float activation(int64_t i) const {
    constexpr int64_t kPlanes = float_planes(kBits);
    return token_.values[i % kPlanes * token_.plane + i / kPlanes];
  }

#if HWY_TARGET != HWY_SCALAR
 protected:
  // Returns the sums of numbers times activations by lane. number(integral_constant) returns the
  // numbers of one code of each lane.
  template <class Number>
  Vector sum_planes(int64_t lane, const Number& number) const {
    return sum_planes(lane, number, std::make_index_sequence<float_planes(kBits)>());
  }

  // The same for bytes; number(integers) returns the numbers of codes.
  template <class Number>
  Vector sum_bytes(const std::byte* codes, int64_t first, const Number& number) const {
    const Floats d;
    Vector sum = hn::Zero(d);
    for (int64_t i = 0; i < kTokenGroup; i += lanes())
      sum = hn::MulAdd(number(codes + i), hn::LoadU(d, token_.values + first + i), sum);
    return sum;
  }

 private:
  template <class Number, size_t... kPlane>
  Vector sum_planes(int64_t lane, const Number& number,
                    std::index_sequence<kPlane...> /*planes*/) const {
    const Floats d;
    Vector sum = hn::Zero(d);
    ((sum = hn::MulAdd(number(std::integral_constant<int, kPlane>()),
                       hn::LoadU(d, token_.values + kPlane * token_.plane + lane), sum)),
     ...);
    return sum;
  }
#endif

  TokenValues token_;
};

class NibbleProducts : public FloatProducts<4> {
 public:
  NibbleProducts(const LinearCodes& codes, TokenValues token)
      : FloatProducts<4>(token), codes_(codes) {}

  int center() const { return codes_.center; }
  float number(uint8_t code) const { return static_cast<float>(signed_number<4>(code, codes_)); }

#if HWY_TARGET != HWY_SCALAR
  Vector operator()(Words words, int64_t lane) const {
    const Words flipped = hn::Xor(words, flip_nibbles(codes_));
    return sum_planes(lane, [&](auto plane) {
      return hn::ConvertTo(Floats(), signed_field<4, plane.value>(Ints(), flipped));
    });
  }
#endif

 private:
  LinearCodes codes_;
};

template <bool kSigned>
class ByteProducts : public FloatProducts<8>, public ByteCodes<kSigned> {
 public:
  explicit ByteProducts(TokenValues token) : FloatProducts<8>(token) {}

#if HWY_TARGET != HWY_SCALAR
  Vector operator()(const std::byte* codes, int64_t first) const {
    return sum_bytes(codes, first, [](const std::byte* from) {
      return hn::ConvertTo(Floats(), ByteCodes<kSigned>::load(Ints(), from));
    });
  }
#endif
};

template <int kCodeBits>
class TableProducts : public FloatProducts<kCodeBits> {
 public:
  TableProducts(const float* table, TokenValues token)
      : FloatProducts<kCodeBits>(token), table_(table), lookup_(table, {}) {}

  static int center() { return 0; }
  float number(uint8_t code) const { return table_[code]; }

#if HWY_TARGET != HWY_SCALAR
  Vector operator()(Words words, int64_t lane) const {
    const hn::RebindToUnsigned<Ints> d;
    const auto codes = hn::BitCast(d, words);
    return this->sum_planes(lane, [&](auto plane) {
      const auto shifted = hn::ShiftRight<kCodeBits * plane.value>(codes);
      const auto code = hn::And(shifted, hn::Set(d, (uint32_t{1} << kCodeBits) - 1));
      return lookup_(hn::BitCast(Ints(), code));
    });
  }

  Vector operator()(const std::byte* codes, int64_t first) const {
    return this->sum_bytes(codes, first, [&](const std::byte* from) {
      return lookup_(load_codes(reinterpret_cast<const uint8_t*>(from)));
    });
  }
#endif

 private:
  const float* table_;
  Lookup<kCodeBits> lookup_;
};

void dot_linear(const BlockRows& rows, const LinearCodes& codes, TokenValues token, float* out) {
  if (codes.bits == 4) return dot_each_row(rows, NibbleProducts(codes, token), out);
  codes.flip == 0 ? dot_each_row(rows, ByteProducts<true>(token), out)
                  : dot_each_row(rows, ByteProducts<false>(token), out);
}

void dot_table(const BlockRows& rows, int bits, const float* table, TokenValues token, float* out) {
  switch (bits) {
    case 1:
      return dot_each_row(rows, TableProducts<1>(table, token), out);
    case 2:
      return dot_each_row(rows, TableProducts<2>(table, token), out);
    case 3:
      return dot_each_row(rows, TableProducts<3>(table, token), out);
    case 4:
      return dot_each_row(rows, TableProducts<4>(table, token), out);
    case 6:
      return dot_each_row(rows, TableProducts<6>(table, token), out);
    default:
      return dot_each_row(rows, TableProducts<8>(table, token), out);
  }
}

}  // namespace
}  // namespace moec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moec {

HWY_EXPORT(dot_linear);
HWY_EXPORT(dot_table);

void dot_linear_rows(const BlockRows& rows, const LinearCodes& codes, TokenValues token,
                     float* out) {
  HWY_DYNAMIC_DISPATCH(dot_linear)(rows, codes, token, out);
}

void dot_table_rows(const BlockRows& rows, int bits, const float* table, TokenValues token,
                    float* out) {
  HWY_DYNAMIC_DISPATCH(dot_table)(rows, bits, table, token, out);
}

}  // namespace moec
#endif
