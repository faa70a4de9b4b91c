#include "backends/weights/views/pack_bits.h"

#include <algorithm>
#include <cstring>

namespace moec {
namespace {

constexpr size_t kRun = 8;  // codes that fill `bits` whole bytes

// Packs eight codes, one per byte with the first in the lowest byte: joins pairs, then fours, then
// all.
uint64_t joined(uint64_t codes, int bits) {
  constexpr uint64_t kBytes = 0x00ff00ff00ff00ff, kWords = 0x0000ffff0000ffff,
                     kHalf = 0x00000000ffffffff;
  codes = (codes & kBytes) | (codes & ~kBytes) >> (8 - bits);
  codes = (codes & kWords) | (codes & ~kWords) >> (16 - 2 * bits);
  return (codes & kHalf) | (codes & ~kHalf) >> (32 - 4 * bits);
}

}  // namespace

void pack_bits(std::span<const uint8_t> codes, int bits, std::byte* to) {
  if (codes.empty()) return;  // data() may be null
  if (bits == 8) {
    std::memcpy(to, codes.data(), codes.size());
    return;
  }
  const auto run_bytes = static_cast<size_t>(bits);
  for (size_t begin = 0; begin < codes.size(); begin += kRun) {
    const size_t count = std::min(kRun, codes.size() - begin);
    uint64_t run = 0;
    std::memcpy(&run, codes.data() + begin, count);
    run = joined(run, bits);
    std::memcpy(to, &run, count == kRun ? run_bytes : packed_bytes(count, bits));
    to += run_bytes;
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
    // The first code is in the lowest bits. memcpy() fills the low bytes first, because all
    // supported hosts are little-endian.
    for (size_t i = 0; i < count; ++i)
      codes[begin + i] = static_cast<uint8_t>(joined >> (static_cast<int>(i) * bits) & mask);
  }
}

}  // namespace moec
