// A checkpoint file opened for reading. A change to the file after its header was read is an error.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ir/base/diagnostics.h"
#include "ir/base/regular_file.h"
#include "ir/graph/weight_table.h"

namespace moec {

class PayloadFile {
 public:
  // Opens a regular file of exactly `file.bytes` bytes that still has the identity `file.identity`.
  // Errors: weights.open, weights.not_a_file, weights.file_changed.
  static Result<PayloadFile> open(const WeightFile& file);

  PayloadFile(PayloadFile&& other) noexcept;
  PayloadFile& operator=(PayloadFile&& other) noexcept;
  ~PayloadFile();

  // Fails with weights.file_changed if the path no longer names the opened file, or if its size or
  // modification time has changed; with weights.read if a page of the mapping was unreadable.
  Status check_unchanged() const;

  // Reads exactly `bytes` bytes from `offset`. The range must lie in the file as opened. Error:
  // weights.read.
  Status read(uint64_t offset, std::byte* to, size_t bytes) const;

  // As read(), but reads bytes that the page cache does not contain with direct I/O, through
  // `bounce`: a buffer of kBounceBytes, aligned to kBlockBytes. If the file system does not support
  // direct I/O, all reads use the page cache.
  static constexpr size_t kBlockBytes = 4096;
  static constexpr size_t kBounceBytes = (size_t{1} << 20) + 2 * kBlockBytes;
  Status read_direct(uint64_t offset, std::byte* to, size_t bytes, std::byte* bounce) const;

  // As read_direct() for at most kLentBytes, but leaves the bytes in `bounce` and returns their
  // address.
  static constexpr size_t kLentBytes = kBounceBytes - 2 * kBlockBytes;
  Result<const std::byte*> lend(uint64_t offset, size_t bytes, std::byte* bounce) const;

  // Reads the blocks that contain bytes [begin, end): from the page cache if it contains them,
  // otherwise without a copy, if the file system supports direct I/O. `to` must be aligned to
  // kBlockBytes and have room for whole blocks; byte `begin` goes to `to` + begin % kBlockBytes.
  // Error: weights.read.
  Status read_blocks_to(uint64_t begin, uint64_t end, std::byte* to) const;

  // A part of read_pieces(): bytes [begin, end), with `to` as in read_blocks_to().
  struct Piece {
    uint64_t begin = 0, end = 0;
    std::byte* to = nullptr;
  };
  // Bytes between two pieces of a call: the emitters align large weights to 64 KiB, and reading the
  // padding takes less time than another call.
  static constexpr size_t kGapBytes = size_t{64} << 10;
  // True if the blocks of `next` continue those of `piece`, after at most kGapBytes, so that one
  // call can read both. They may share the block in which `piece` ends.
  static bool continues(const Piece& piece, const Piece& next);
  // As read_blocks_to() for each piece, but with one read call. Each piece must continue the one
  // before it.
  Status read_pieces(std::span<const Piece> pieces) const;

  // Returns the read-only mapping of the file; null if the system cannot map it. Reading it
  // requires a MappedRead (mapped_values.h). All PayloadFiles of an unchanged file share a mapping,
  // because the memory of a process counts the pages of each.
  const std::byte* mapped() const { return mapping_ ? mapping_->pages : nullptr; }
  // Records that a page of the mapping was unreadable. Safe in a signal handler.
  void note_unreadable() const { mapping_->unreadable.store(true, std::memory_order_relaxed); }

  const std::string& path() const { return path_; }
  uint64_t size() const { return identity_.bytes; }

 private:
  struct Mapping {
    std::byte* pages = nullptr;
    size_t bytes = 0;
    std::atomic<bool> unreadable = false;
    ~Mapping();
  };

  PayloadFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  // Null if the system cannot map the file.
  static std::shared_ptr<Mapping> map_pages(int descriptor, const FileIdentity& identity);

  // Returns true if the page cache contains these bytes; false if the system does not report it.
  bool is_cached(uint64_t offset, size_t bytes) const;

  // Returns the descriptor for a read: the one for direct I/O, unless the system does not support
  // it or the page cache contains these bytes.
  int descriptor_for(uint64_t offset, size_t bytes) const {
    return direct_ < 0 || is_cached(offset, bytes) ? descriptor_ : direct_;
  }

  static size_t lead_of(uint64_t offset) { return static_cast<size_t>(offset % kBlockBytes); }

  // Reads the blocks that contain bytes [offset, offset + bytes) with direct I/O. `to` receives
  // these bytes; it must be congruent to `offset` modulo kBlockBytes and have room for whole
  // blocks. Returns the number of bytes read; 0 if the read must go through the page cache.
  size_t read_blocks(uint64_t offset, size_t bytes, std::byte* to) const;

  std::string path_;
  int descriptor_ = -1;
  int direct_ = -1;                   // descriptor for direct I/O; -1 if unsupported
  std::shared_ptr<Mapping> mapping_;  // also used to query cached pages
  bool may_ask_ = false;              // true if the system answers this query
  FileIdentity identity_;
};

}  // namespace moec
