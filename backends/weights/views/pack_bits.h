// Packs low-bit codes into bytes. Code i occupies bits [i·b, (i+1)·b) of the stream, lowest bit
// first; codes of 3 or 6 bits may cross a byte boundary. Core ML's blobs and the nibbles of ONNX,
// LiteRT and onnxruntime's MatMulNBits use this order.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace moec {

// Returns the number of bytes of `count` codes.
constexpr size_t packed_bytes(size_t count, int bits) {
  return (count * static_cast<size_t>(bits) + 7) / 8;
}

// Packs codes below 2^bits, 1 ≤ bits ≤ 8, into packed_bytes() bytes; unused bits of the last byte
// are zero. To pack a stream in pieces, pass a multiple of 8 codes in every call but the last.
void pack_bits(std::span<const uint8_t> codes, int bits, std::byte* to);

// Inverse of pack_bits(), for codes.size() codes.
void unpack_bits(const std::byte* from, int bits, std::span<uint8_t> codes);

// Load and store elements in their file layout: little-endian and unaligned.

static_assert(std::endian::native == std::endian::little,
              "payload is little-endian and read without swapping bytes");

template <class T>
T load(const std::byte* from, size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(std::byte* to, size_t index, T value) {
  std::memcpy(to + index * sizeof(T), &value, sizeof(T));
}

template <class T, class Convert>
void decode_each(const std::byte* from, size_t count, float* to, Convert convert) {
  for (size_t i = 0; i < count; ++i) to[i] = convert(load<T>(from, i));
}

// Counts the elements whose bits, without the sign, are at least `least`.
template <class T>
uint64_t count_from(const std::byte* values, size_t count, T least) {
  constexpr T magnitude = static_cast<T>(static_cast<T>(~T{0}) >> 1);
  uint64_t found = 0;
  for (size_t i = 0; i < count; ++i)
    found += static_cast<T>(load<T>(values, i) & magnitude) >= least ? 1 : 0;
  return found;
}

// Maps each bit pattern of f8_e4m3 to its value.
const std::array<float, 256>& f8_e4m3_table();

}  // namespace moec
