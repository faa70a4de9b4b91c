// A checkpoint file held open for reading. It must stay as it was when its headers were read.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <span>
#include <string>

#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"

namespace moec {

class PayloadFile {
 public:
  // Regular files only, of exactly the size that `file` tells.
  static Result<PayloadFile> open(const WeightFile& file);

  PayloadFile(PayloadFile&& other) noexcept;
  PayloadFile& operator=(PayloadFile&& other) noexcept;
  ~PayloadFile();

  // Fails with weights.file_changed when the path no longer leads to the file that was opened, or
  // size or time of change are others.
  Status check_unchanged() const;

  // Exactly `bytes` bytes from `offset`. The range must lie inside the file as it was opened.
  Status read(uint64_t offset, std::byte* to, size_t bytes) const;

  // The same, but what the page cache does not hold yet is read past it, by way of `bounce`, which
  // has kBounceBytes and lies at a multiple of kBlockBytes. All goes through the cache where the
  // file system does not offer that.
  static constexpr size_t kBlockBytes = 4096;
  static constexpr size_t kBounceBytes = (size_t{1} << 20) + 2 * kBlockBytes;
  Status read_direct(uint64_t offset, std::byte* to, size_t bytes, std::byte* bounce) const;

  // The same for at most kLentBytes, which are left in `bounce`: tells where.
  static constexpr size_t kLentBytes = kBounceBytes - 2 * kBlockBytes;
  Result<const std::byte*> lend(uint64_t offset, size_t bytes, std::byte* bounce) const;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }

 private:
  PayloadFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  // Whether the page cache holds these bytes; false where the system does not tell.
  bool is_cached(uint64_t offset, size_t bytes) const;

  static size_t lead_of(uint64_t offset) { return static_cast<size_t>(offset % kBlockBytes); }

  // The blocks that hold these bytes, past the cache. `to` is where the bytes go: as far from the
  // start of a block as `offset` is. How many of them are there; 0 where the read must go through
  // the cache.
  size_t read_blocks(uint64_t offset, size_t bytes, std::byte* to) const;

  std::string path_;
  int descriptor_ = -1;
  int direct_ = -1;        // for reads past the page cache; -1 where the file system has none
  void* pages_ = nullptr;  // the file mapped, only to ask which pages are cached; never touched
  uint64_t size_ = 0;
  timespec changed_{};
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace moec
