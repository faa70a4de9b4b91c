// A checkpoint file that is open for reading. Changes to it after its header was read are errors.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ir/base/diagnostics.h"
#include "ir/base/regular_file.h"
#include "ir/graph/weight_table.h"

namespace moec {

class PayloadFile {
 public:
  // Opens a regular file of exactly `file.bytes` bytes, which is still the one of `file.identity`.
  // Errors: weights.open, weights.not_a_file,
  // weights.file_changed.
  static Result<PayloadFile> open(const WeightFile& file);

  PayloadFile(PayloadFile&& other) noexcept;
  PayloadFile& operator=(PayloadFile&& other) noexcept;
  ~PayloadFile();

  // Fails with weights.file_changed if the path no longer names the file that was opened, or if its
  // size or its time of writing has changed; with weights.read if a page of the map was
  // unreadable.
  Status check_unchanged() const;

  // Reads exactly `bytes` bytes from `offset`. The range must lie inside the file as it was opened.
  // Error: weights.read.
  Status read(uint64_t offset, std::byte* to, size_t bytes) const;

  // The same, but bypasses the page cache for bytes that it does not hold yet. They go through
  // `bounce`, a buffer of kBounceBytes aligned to kBlockBytes. If the file system has no such
  // reads, everything goes through the cache.
  static constexpr size_t kBlockBytes = 4096;
  static constexpr size_t kBounceBytes = (size_t{1} << 20) + 2 * kBlockBytes;
  Status read_direct(uint64_t offset, std::byte* to, size_t bytes, std::byte* bounce) const;

  // The same for at most kLentBytes, which stay in `bounce`; returns where they begin.
  static constexpr size_t kLentBytes = kBounceBytes - 2 * kBlockBytes;
  Result<const std::byte*> lend(uint64_t offset, size_t bytes, std::byte* bounce) const;

  // Reads the blocks that hold these bytes, past the page cache where the file system can, without
  // a copy. `to` is aligned to kBlockBytes and has room for bytes [begin, end) rounded out to whole
  // blocks; byte `begin` goes to `to` + begin % kBlockBytes. Error: weights.read.
  Status read_blocks_to(uint64_t begin, uint64_t end, std::byte* to) const;

  // The file mapped into memory, read-only; null if the system has no room for that. What is read
  // there is read under MappedRead (mapped_values.h).
  const std::byte* mapped() const { return static_cast<const std::byte*>(pages_); }
  // Notes that a page of the map could not be read; may be called in a signal handler.
  void note_unreadable() const { unreadable_.store(true, std::memory_order_relaxed); }

  const std::string& path() const { return path_; }
  uint64_t size() const { return identity_.bytes; }

 private:
  PayloadFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  // Whether the page cache holds these bytes; false if the system cannot tell.
  bool is_cached(uint64_t offset, size_t bytes) const;

  static size_t lead_of(uint64_t offset) { return static_cast<size_t>(offset % kBlockBytes); }

  // Reads the blocks that hold these bytes, bypassing the cache. `to` is where the bytes go; it
  // lies as far behind an aligned address as `offset` lies behind the start of a block. Returns how
  // many of the bytes were read; 0 if the read must go through the cache.
  size_t read_blocks(uint64_t offset, size_t bytes, std::byte* to) const;

  std::string path_;
  int descriptor_ = -1;
  int direct_ = -1;        // for reads that bypass the page cache; -1 if there are none
  void* pages_ = nullptr;  // the file mapped, also to ask which pages are cached
  bool may_ask_ = false;   // whether the system answers that
  mutable std::atomic<bool> unreadable_ = false;
  FileIdentity identity_;
};

}  // namespace moec
