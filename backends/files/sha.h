// Standard digests (FIPS 180-4) that other programs can verify. SHA-1 is ONNX's checksum of
// external data files; it detects only accidental changes. SHA-256 is cryptographic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace moec {

enum class ShaKind : uint8_t { sha1, sha256 };

class Sha {
 public:
  explicit Sha(ShaKind kind);
  ~Sha();
  Sha(Sha&&) noexcept;
  Sha& operator=(Sha&&) noexcept;

  void update(std::span<const std::byte> bytes);
  // Ends the computation. Returns the digest of all bytes, 40 or 64 lower-case hex digits.
  std::string finish_hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

bool is_sha256(std::string_view text);

}  // namespace moec
