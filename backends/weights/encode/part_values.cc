#include "backends/weights/encode/part_values.h"

#include "backends/weights/views/convert.h"
#include "backends/weights/views/pack_bits.h"

namespace moec {

std::vector<float> floats_of(DType dtype, std::span<const std::byte> bytes) {
  std::vector<float> floats(bytes.size() / static_cast<size_t>(dtype_bytes(dtype)));
  decode(dtype, bytes.data(), floats.size(), floats.data());
  return floats;
}

std::vector<uint8_t> unpacked(std::span<const std::byte> packed, int64_t bits, int64_t count) {
  std::vector<uint8_t> codes(static_cast<size_t>(count));
  // `count` excludes the unused bits of the last byte.
  unpack_bits(packed.data(), static_cast<int>(bits), codes);
  return codes;
}

std::vector<std::byte> packed(std::span<const uint8_t> codes, int64_t bits) {
  std::vector<std::byte> bytes(packed_bytes(codes.size(), static_cast<int>(bits)));
  pack_bits(codes, static_cast<int>(bits), bytes.data());
  return bytes;
}

}  // namespace moec
