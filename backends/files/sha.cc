#include "backends/files/sha.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "ir/base/invariant.h"

namespace moec {

struct Sha::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  explicit State(const EVP_MD* algorithm) {
    MOEC_CHECK(context && EVP_DigestInit_ex(context, algorithm, nullptr) == 1,
               "libcrypto does not support {}", EVP_MD_get0_name(algorithm));
  }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Sha::Sha(ShaKind kind)
    : state_(std::make_unique<State>(kind == ShaKind::sha1 ? EVP_sha1() : EVP_sha256())) {}
Sha::~Sha() = default;
Sha::Sha(Sha&&) noexcept = default;
Sha& Sha::operator=(Sha&&) noexcept = default;

void Sha::update(std::span<const std::byte> bytes) {
  MOEC_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1,
             "a digest of {} bytes failed", bytes.size());
}

std::string Sha::finish_hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  MOEC_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), &size) == 1,
             "a digest was finished twice");
  std::string hex;
  for (unsigned i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

bool is_sha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace moec
