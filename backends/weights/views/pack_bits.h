// Codes of a few bits as bytes. Code i takes the bits [i·b, (i+1)·b) of the stream, the lowest bit
// first; codes of 3 and 6 bits cross bytes. Core ML's blobs and the nibbles of ONNX, LiteRT and
// onnxruntime's MatMulNBits have this order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace moec {

// How many bytes hold `count` codes.
constexpr size_t packed_bytes(size_t count, int bits) {
  return (count * static_cast<size_t>(bits) + 7) / 8;
}

// Packs codes below 2^bits, with 1 ≤ bits ≤ 8, into packed_bytes() bytes; unused bits of the last
// byte are zero. A caller that packs piece by piece passes multiples of 8 codes.
void pack_bits(std::span<const uint8_t> codes, int bits, std::byte* to);

// The inverse, for codes.size() codes.
void unpack_bits(const std::byte* from, int bits, std::span<uint8_t> codes);

}  // namespace moec
