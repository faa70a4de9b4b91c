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
  Sha1() : Sha1(has_x86_instructions() ? compress_x86 : compress_portable) {}

  void update(std::span<const std::byte> bytes);
  // The digest of all bytes so far, 40 lower-case hex digits. Ends the computation.
  std::string finish_hex();

 private:
  static constexpr size_t kBlock = 64;
  using State = std::array<uint32_t, 5>;
  using Compress = void (*)(State& state, const std::byte* blocks, size_t count);
  // By instruction, where the processor has them: about four times as fast.
  static void compress_x86(State& state, const std::byte* blocks, size_t count);
  static bool has_x86_instructions();
  static void compress_portable(State& state, const std::byte* blocks, size_t count);
  explicit Sha1(Compress compress) : compress_(compress) {}
  friend class Sha1Variants;  // for the test that both ways agree

  Compress compress_;
  State state_{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  std::array<std::byte, kBlock> buffer_{};
  size_t buffered_ = 0;
  uint64_t total_bytes_ = 0;
};

}  // namespace moec
