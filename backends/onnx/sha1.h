// SHA-1 (FIPS 180-4), the checksum that ONNX defines for external data files. It guards against
// accidents, not against attackers.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace moec {

class Sha1 {
 public:
  Sha1();
  ~Sha1();
  Sha1(Sha1&&) noexcept;
  Sha1& operator=(Sha1&&) noexcept;

  void update(std::span<const std::byte> bytes);
  // The digest of all bytes so far, 40 lower-case hex digits. Ends the computation.
  std::string finish_hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moec
