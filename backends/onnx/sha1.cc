#include "backends/onnx/sha1.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "ir/invariant.h"

namespace moec {

struct Sha1::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() {
    MOEC_CHECK(context && EVP_DigestInit_ex(context, EVP_sha1(), nullptr) == 1,
               "libcrypto offers no SHA-1");
  }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Sha1::Sha1() : state_(std::make_unique<State>()) {}
Sha1::~Sha1() = default;
Sha1::Sha1(Sha1&&) noexcept = default;
Sha1& Sha1::operator=(Sha1&&) noexcept = default;

void Sha1::update(std::span<const std::byte> bytes) {
  MOEC_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1,
             "SHA-1 of {} bytes failed", bytes.size());
}

std::string Sha1::finish_hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  MOEC_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), &size) == 1,
             "SHA-1 was finished twice");
  std::string hex;
  for (unsigned i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

}  // namespace moec
