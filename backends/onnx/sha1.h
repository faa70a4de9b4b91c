// SHA-1 (FIPS 180-4), the checksum that ONNX defines for external data files. It guards against
// accidents, not against attackers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace moec {

class Sha1 {
 public:
  void update(std::span<const std::byte> bytes);
  // The digest of all bytes so far, 40 lower-case hex digits. Ends the computation.
  std::string finish_hex();

 private:
  static constexpr size_t kBlock = 64;
  void compress(const std::byte* block);

  std::array<uint32_t, 5> state_{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  std::array<std::byte, kBlock> buffer_{};
  size_t buffered_ = 0;
  uint64_t total_bytes_ = 0;
};

}  // namespace moec
