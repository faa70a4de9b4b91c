// Appends to a file at the speed of the disk. The caller fills one piece of memory while threads
// write the pieces before it, and further threads may observe each piece, for example to compute a
// checksum. Writes bypass the page cache where the file system allows it: when this was measured,
// writes through the cache reached 0.3–0.4 GB/s, those past it 1.2 GB/s and more. Several writes
// are in flight at a time, so that they get their share of a disk that is being read as well. File
// systems run writes in parallel only inside the file's size, so the caller may set that ahead.
// Where the system refuses threads, the caller's own thread writes.
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
  // Memory of a file that is being written; less for a file that is smaller than a piece.
  static constexpr size_t kHeldBytes = kPieceBytes * kPieces;

  using Observer = std::function<void(std::span<const std::byte> bytes)>;

  // Writes from the current position of `fd`, which the caller keeps and closes. Each observer gets
  // all bytes in order, on a thread of its own, until finish() returns.
  BulkWriter(int fd, std::vector<Observer> observers);
  // Waits for the threads. Without finish(), bytes may be missing in the file.
  ~BulkWriter();
  BulkWriter(const BulkWriter&) = delete;
  BulkWriter& operator=(const BulkWriter&) = delete;

  // Returns 0, or the errno of a failed write, which may be one that an earlier call began.
  int append(std::span<const std::byte> bytes);
  // Waits until all bytes are in the file and all observers have seen them. Returns 0, or the errno
  // of the first failure.
  int finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moec
