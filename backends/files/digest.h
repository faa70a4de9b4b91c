// The digest of emitted files: xxh3-128 as 32 lower-case hex digits, most significant first, as
// printed by `xxhsum -H2`. It detects corruption and mix-ups, but is not cryptographic.
#pragma once

#include <functional>
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

// Appends a last member "digest" to a JSON object as written by json_text(): the digest of the text
// before it.
std::string sealed_text(std::string_view object);
// Returns true if the text ends with the correct digest member of sealed_text().
bool is_sealed(std::string_view text);

// Digest of an open file. Errors: those of RegularFile.
Result<std::string> digest_file(const RegularFile& file);

// Computes both digests in one pass. SHA-256 (sha.h) is empty unless `sha256`. Calls `on_read`, if
// not empty, with the bytes of each piece. Errors: those of digest_file().
struct FileDigests {
  std::string xxh3, sha256;
};
Result<FileDigests> digest_file(const std::string& path, bool sha256,
                                const std::function<void(uint64_t bytes)>& on_read = {});

bool is_digest(std::string_view text);

}  // namespace moec
