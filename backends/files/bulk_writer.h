// Appends to a file at the speed of the disk: the caller fills one piece of memory while threads
// write earlier ones, and further threads may look at each (a checksum of its own, say). What is
// written goes past the page cache where the file system allows it: through the cache, the machine
// that this was written on takes 0.3–0.4 GB/s, past it 1.2 GB/s and more. Several writes are under
// way at a time, so that a disk that is also read gets its share of them; file systems let them
// run side by side only inside the file's size, which the caller may set ahead.
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
  // What a file in the making holds; less where it is smaller than a piece.
  static constexpr size_t kHeldBytes = kPieceBytes * kPieces;

  using Observer = std::function<void(std::span<const std::byte> bytes)>;

  // Writes from the position on at which `fd` stands; `fd` stays the caller's. Each observer gets
  // all bytes in order, on a thread of its own, until finish() returns.
  BulkWriter(int fd, std::vector<Observer> observers);
  // Waits for the threads. What finish() has not put into the file may be missing there.
  ~BulkWriter();
  BulkWriter(const BulkWriter&) = delete;
  BulkWriter& operator=(const BulkWriter&) = delete;

  // 0, or the errno of a write: of this call or of an earlier one whose failure came later.
  int append(std::span<const std::byte> bytes);
  // Everything is in the file and was seen by the observers. The errno of the first failure, or 0.
  int finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moec
