#include "backends/weights/views/convert.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "backends/weights/views/code_kernels.h"
#include "backends/weights/views/convert_kernels.h"
#include "backends/weights/views/pack_bits.h"
#include "ir/base/invariant.h"
#include "ir/graph/scalar.h"

namespace moec {
namespace {

template <size_t kCount, class Value>
std::array<float, kCount> table_of(Value value) {
  std::array<float, kCount> values{};
  for (size_t i = 0; i < kCount; ++i) values[i] = value(static_cast<uint8_t>(i));
  return values;
}

float f32_from_i4_excess8(uint8_t bits) { return static_cast<float>(bits) - 8; }
float f32_from_u4(uint8_t bits) { return static_cast<float>(bits); }
float f32_from_i4(uint8_t bits) { return static_cast<float>(bits < 8 ? bits : bits - 16); }

// Unpacks unsigned numbers of `bits` bits from `count` bytes.
void unpack_unsigned(int bits, const std::byte* from, size_t count, float* to) {
  constexpr size_t kPiece = 960;  // bytes per iteration; whole numbers of every width
  std::array<uint8_t, kPiece * 8> codes;
  for (size_t at = 0; at < count; at += kPiece) {
    const size_t bytes = std::min(kPiece, count - at);
    const std::span piece(codes.data(), bytes * 8 / static_cast<size_t>(bits));
    unpack_bits(from + at, bits, piece);
    to = std::copy(piece.begin(), piece.end(), to);
  }
}

// Unpacks `count` i32 elements of u4_awq: the even numbers are in the low half, the odd ones in the
// high half. Source: AutoAWQ, the layers of version GEMM.
void unpack_awq(const std::byte* from, size_t count, float* to) {
  for (size_t i = 0; i < count; ++i, to += 8) {
    const auto word = load<uint32_t>(from, i);
    for (size_t nibble = 0; nibble < 8; ++nibble)
      to[nibble < 4 ? 2 * nibble : 2 * nibble - 7] = static_cast<float>(word >> (4 * nibble) & 0xf);
  }
}

// Unpacks `count` bytes of u4_high.
void unpack_high(const std::byte* from, size_t count, float* to) {
  for (size_t i = 0; i < count; ++i) {
    const auto byte = load<uint8_t>(from, i);
    to[2 * i] = static_cast<float>(byte >> 4);
    to[2 * i + 1] = static_cast<float>(byte & 0xf);
  }
}

// Dispatching each call would cost as much as the scaling of a block of 32 elements.
const ConvertKernels& kernels() {
  static const ConvertKernels& best = best_kernels();
  return best;
}

// Decodes two numbers per byte; the low four bits come first.
void unpack_nibbles(const NibbleTable& values, const std::byte* from, size_t bytes, float* to) {
  constexpr float kOne = 1;
  const auto count = static_cast<int64_t>(2 * bytes);
  decode_nibble_blocks({from, count, std::max<int64_t>(count, 1), &kOne, nullptr}, values, to);
}

}  // namespace

void decode(DType dtype, const std::byte* from, size_t count, float* to) {
  switch (dtype) {
    case DType::f32:
      std::memcpy(to, from, count * sizeof(float));
      return;
    case DType::f16:
      return kernels().decode_f16(from, count, to);
    case DType::bf16:
      return kernels().decode_bf16(from, count, to);
    case DType::f8_e4m3:
      return kernels().decode_f8_e4m3(from, count, to);
    case DType::i64:
      return decode_each<int64_t>(from, count, to, [](int64_t v) { return static_cast<float>(v); });
    case DType::i32:
      return decode_each<int32_t>(from, count, to, [](int32_t v) { return static_cast<float>(v); });
    case DType::u8:
      return decode_each<uint8_t>(from, count, to, [](uint8_t v) { return static_cast<float>(v); });
    case DType::boolean:
      return decode_each<uint8_t>(from, count, to, [](uint8_t v) { return v ? 1.0f : 0.0f; });
  }
}

void unpack(Packing packing, const std::byte* from, size_t count, float* to) {
  // Tables are built on first use; the initialization of a static is thread-safe.
  static const auto e2m1 = table_of<16>(f32_from_f4_e2m1),
                    excess8 = table_of<16>(f32_from_i4_excess8), u4 = table_of<16>(f32_from_u4),
                    i4 = table_of<16>(f32_from_i4);
  static const auto e8m0 = table_of<256>(f32_from_f8_e8m0);
  switch (packing) {
    case Packing::f4_e2m1:
      return unpack_nibbles(e2m1, from, count, to);
    case Packing::i4_excess8:
      return unpack_nibbles(excess8, from, count * sizeof(int32_t), to);
    case Packing::f8_e8m0:
      return decode_each<uint8_t>(from, count, to, [](uint8_t bits) { return e8m0[bits]; });
    case Packing::u4:
      return unpack_nibbles(u4, from, count, to);
    case Packing::u8:
      return decode(DType::u8, from, count, to);
    case Packing::i4:
      return unpack_nibbles(i4, from, count, to);
    case Packing::i8:
      return decode_each<int8_t>(from, count, to, [](int8_t v) { return static_cast<float>(v); });
    case Packing::u4_i32:
      return unpack_nibbles(u4, from, count * sizeof(int32_t), to);
    case Packing::u8_i32:
      return decode(DType::u8, from, count * sizeof(int32_t), to);
    case Packing::u4_awq:
      return unpack_awq(from, count, to);
    case Packing::u4_high:
      return unpack_high(from, count, to);
    default:  // Elements are little-endian, so their bytes have the order of the bits.
      return unpack_unsigned(number_bits(packing), from,
                             count * static_cast<size_t>(dtype_bytes(packed_run(packing).dtype)),
                             to);
  }
}

uint64_t encode(DType dtype, const float* from, size_t count, std::byte* to) {
  if (dtype == DType::f16) return kernels().encode_f16(from, count, to);
  if (dtype == DType::bf16) return kernels().encode_bf16(from, count, to);
  MOEC_CHECK(dtype == DType::f32, "no conversion from f32 to {}", dtype_name(dtype));
  std::memcpy(to, from, count * sizeof(float));
  return 0;
}

void round_values(DType dtype, float* values, size_t count) {
  if (dtype == DType::f32) return;
  std::array<std::byte, 4096> rounded;
  const size_t most = rounded.size() / static_cast<size_t>(dtype_bytes(dtype));
  for (size_t done = 0; done < count; done += most) {
    const size_t part = std::min(count - done, most);
    encode(dtype, values + done, part, rounded.data());
    decode(dtype, rounded.data(), part, values + done);
  }
}

uint64_t scale(float factor, float* values, size_t count) {
  return kernels().scale(factor, values, count);
}

uint64_t multiply(const float* factors, float* values, size_t count) {
  return kernels().multiply(factors, values, count);
}

uint64_t count_nonfinite(DType dtype, const std::byte* values, size_t count) {
  if (dtype == DType::f32) return kernels().count_from_32(values, count, 0x7f800000u);
  if (dtype == DType::f16) return kernels().count_from_16(values, count, 0x7c00u);
  if (dtype == DType::bf16) return kernels().count_from_16(values, count, 0x7f80u);
  // f8_e4m3 has no infinity, and its NaNs are 0x7f and 0xff.
  if (dtype == DType::f8_e4m3) return count_from<uint8_t>(values, count, 0x7fu);
  return 0;
}

}  // namespace moec
