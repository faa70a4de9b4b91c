#include "backends/files/digest.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // the same functions, for the vectors that this CPU has
#endif

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include "backends/files/sha.h"
#include "ir/base/invariant.h"

namespace moec {

struct Digest::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() {
    MOEC_CHECK(xxh != nullptr, "no memory for a digest");
    XXH3_128bits_reset(xxh);
  }
  ~State() { XXH3_freeState(xxh); }
};

Digest::Digest() : state_(std::make_unique<State>()) {}
Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

void Digest::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

std::string Digest::hex() const {
  XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

static Status feed(int fd, const std::string& path,
                   const std::function<void(std::span<const std::byte>)>& take) {
  std::vector<std::byte> piece(1 << 20);
  for (;;) {
    ssize_t got = ::read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return fail("digest.read", fmt::format("cannot read: {}", std::strerror(errno)),
                  "check the disk and the file's permissions", {.file = path});
    if (got == 0) return {};
    take({piece.data(), static_cast<size_t>(got)});
  }
}

Result<std::string> digest_file(const std::string& path) {
  MOEC_ASSIGN(FileDigests digests, digest_file(path, false));
  return std::move(digests.xxh3);
}

Result<FileDigests> digest_file(const std::string& path, bool sha256) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return fail("digest.open", fmt::format("cannot open: {}", std::strerror(errno)),
                "check that the file exists and can be read", {.file = path});
  Digest digest;
  std::optional<Sha> sha;
  if (sha256) sha.emplace(ShaKind::sha256);
  Status fed = feed(fd, path, [&](std::span<const std::byte> bytes) {
    digest.update(bytes);
    if (sha) sha->update(bytes);
  });
  ::close(fd);
  if (!fed) return fail(std::move(fed.error()));
  return FileDigests{digest.hex(), sha ? sha->finish_hex() : std::string()};
}

bool is_digest(std::string_view text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace moec
