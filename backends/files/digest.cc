#include "backends/files/digest.h"

#include <fmt/format.h>
#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // the same functions, for the vectors that this CPU has
#endif

#include <algorithm>
#include <functional>
#include <new>
#include <optional>
#include <vector>

#include "backends/files/sha.h"

namespace moec {

struct Digest::State {
  // The state must be aligned to 64 bytes, which XXH3_createState() ensures.
  XXH3_state_t* xxh = XXH3_createState();
  State() {
    if (!xxh) throw std::bad_alloc();
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
  // xxhsum prints the canonical form: the high half first, both halves big-endian.
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string digest_text(std::string_view text) {
  Digest digest;
  digest.update(std::as_bytes(std::span(text)));
  return digest.hex();
}

// Returns the digest field and the closing brace that follow the sealed text.
static std::string seal_of(std::string_view body) {
  return fmt::format(",\n \"digest\": \"{}\"\n}}\n", digest_text(body));
}

std::string sealed_text(std::string_view object) {
  object = object.substr(0, object.rfind('}'));
  // The seal begins with a comma and a newline, so the newline before the closing brace is dropped
  // too.
  const std::string_view body = object.substr(0, object.find_last_not_of("\n ") + 1);
  return std::string(body) + seal_of(body);
}

bool is_sealed(std::string_view text) {
  const size_t seal = seal_of({}).size();
  if (text.size() < seal) return false;
  const std::string_view body = text.substr(0, text.size() - seal);
  return text.substr(body.size()) == seal_of(body);
}

static Status feed(const RegularFile& file,
                   const std::function<void(std::span<const std::byte>)>& take) {
  constexpr uint64_t kPieceBytes = 1 << 20;
  std::vector<char> buffer(std::min(kPieceBytes, file.size()));
  for (uint64_t offset = 0; offset < file.size(); offset += buffer.size()) {
    const auto piece =
        std::span(buffer).first(std::min<uint64_t>(buffer.size(), file.size() - offset));
    // A file that shrinks during the loop is an error of read_into(), so the digest covers exactly
    // size() bytes.
    MOEC_TRY(file.read_into(offset, piece));
    take(std::as_bytes(piece));
  }
  return {};
}

Result<std::string> digest_file(const std::string& path) {
  MOEC_ASSIGN(FileDigests digests, digest_file(path, false));
  return std::move(digests.xxh3);
}

Result<std::string> digest_file(const RegularFile& file) {
  Digest digest;
  MOEC_TRY(feed(file, [&](std::span<const std::byte> bytes) { digest.update(bytes); }));
  return digest.hex();
}

static Result<FileDigests> digest_regular_file(const std::string& path, bool sha256,
                                               const std::function<void(uint64_t)>& on_read) {
  MOEC_ASSIGN(const RegularFile file, RegularFile::open(path));
  Digest digest;
  std::optional<Sha> sha;
  if (sha256) sha.emplace(ShaKind::sha256);
  MOEC_TRY(feed(file, [&](std::span<const std::byte> bytes) {
    digest.update(bytes);
    if (sha) sha->update(bytes);
    if (on_read) on_read(bytes.size());
  }));
  return FileDigests{digest.hex(), sha ? sha->finish_hex() : std::string()};
}

Result<FileDigests> digest_file(const std::string& path, bool sha256,
                                const std::function<void(uint64_t bytes)>& on_read) {
  return digest_regular_file(path, sha256, on_read).map_error([](Diagnostics errors) {
    for (Diagnostic& error : errors) {
      // RegularFile names no next step if a read fails.
      error.code = error.code == "file.open" ? "digest.open" : "digest.read";
      error.next_step = "check the disk and the file's permissions";
    }
    return errors;
  });
}

bool is_digest(std::string_view text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace moec
