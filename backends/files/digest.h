// The digest of emitted files: xxh3-128 as 32 lower-case hex digits, most significant first (the
// form that `xxhsum -H2` prints). It detects damage and mix-ups, not forgery.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"
#include "ir/base/regular_file.h"

namespace moec {

class Digest {
 public:
  Digest();
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;

  void update(std::span<const std::byte> bytes);
  std::string hex() const;  // of all bytes so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string digest_text(std::string_view text);

// Reads the file in pieces of 1 MiB. Fails with "digest.open" or "digest.read".
Result<std::string> digest_file(const std::string& path);

// A JSON object, as json_text() writes it, with a last member "digest": that of the text before it.
std::string sealed_text(std::string_view object);
// Whether the text is one that sealed_text() made.
bool is_sealed(std::string_view text);

// That of a file that is open. Errors: those of RegularFile.
Result<std::string> digest_file(const RegularFile& file);

// Both digests of the file, in one pass: SHA-256 (sha.h) only with `sha256`, else empty. Errors as
// digest_file().
struct FileDigests {
  std::string xxh3, sha256;
};
Result<FileDigests> digest_file(const std::string& path, bool sha256);

bool is_digest(std::string_view text);

}  // namespace moec
