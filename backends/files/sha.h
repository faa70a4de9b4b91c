// Two digests that other programs compute as well (FIPS 180-4): SHA-1, which ONNX defines as the
// checksum of external data files and which detects accidents, not attacks; and SHA-256.
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
  // The digest of all bytes so far, 40 or 64 lower-case hex digits. Ends the computation.
  std::string finish_hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

bool is_sha256(std::string_view text);

}  // namespace moec
