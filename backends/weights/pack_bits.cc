#include "backends/weights/pack_bits.h"

#include <algorithm>
#include <cstring>

namespace moec {
namespace {

constexpr size_t kRun = 8;  // codes that fill `bits` whole bytes

uint64_t join(const uint8_t* codes, size_t count, int bits) {
  uint64_t joined = 0;
  for (size_t i = 0; i < count; ++i) joined |= uint64_t{codes[i]} << (static_cast<int>(i) * bits);
  return joined;
}

}  // namespace

void pack_bits(std::span<const uint8_t> codes, int bits, std::byte* to) {
  for (size_t begin = 0; begin < codes.size(); begin += kRun) {
    const size_t count = std::min(kRun, codes.size() - begin);
    const uint64_t joined = join(codes.data() + begin, count, bits);
    const size_t bytes = packed_bytes(count, bits);
    std::memcpy(to, &joined, bytes);
    to += bytes;
  }
}

void unpack_bits(const std::byte* from, int bits, std::span<uint8_t> codes) {
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  for (size_t begin = 0; begin < codes.size(); begin += kRun) {
    const size_t count = std::min(kRun, codes.size() - begin);
    const size_t bytes = packed_bytes(count, bits);
    uint64_t joined = 0;
    std::memcpy(&joined, from, bytes);
    from += bytes;
    for (size_t i = 0; i < count; ++i)
      codes[begin + i] = static_cast<uint8_t>(joined >> (static_cast<int>(i) * bits) & mask);
  }
}

}  // namespace moec
