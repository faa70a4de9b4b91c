// Appends to a file at the speed of the disk. The caller fills one buffer while threads write the
// earlier ones; further threads may observe each buffer, for example to compute a checksum. Writes
// bypass the page cache if the file system supports it: measured 1.2 GB/s and more, against 0.3–0.4
// GB/s through the cache. Several writes are in flight at a time, so that writes get their share of
// a disk that is also being read. File systems run writes in parallel only within the file's
// current size, so the caller should set the size in advance. If threads cannot be created, the
// calling thread writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace moec {

class BulkWriter {
 public:
  static constexpr size_t kPieceBytes = size_t{2} << 20;
  static constexpr size_t kPieces = 6;
  static constexpr size_t kWriters = 4;
  // Maximum memory per open file. A file smaller than a piece uses less.
  static constexpr size_t kHeldBytes = kPieceBytes * kPieces;

  using Observer = std::function<void(std::span<const std::byte> bytes)>;

  // Writes from the current position of `fd`; the caller owns and closes `fd`. Each observer
  // receives all bytes in order on its own thread, until finish() returns.
  BulkWriter(int fd, std::vector<Observer> observers);
  // Waits for the threads. If finish() was not called, the file may lack bytes.
  ~BulkWriter();
  BulkWriter(const BulkWriter&) = delete;
  BulkWriter& operator=(const BulkWriter&) = delete;

  // Returns 0, or the errno of a failed write, possibly one that an earlier call started.
  int append(std::span<const std::byte> bytes);
  // Waits until all bytes are written and observed. Returns 0, or the errno of the first failure.
  int finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moec
