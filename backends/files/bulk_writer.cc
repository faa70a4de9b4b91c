#include "backends/files/bulk_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "ir/base/refusals.h"

namespace moec {
namespace {

// Direct writes require addresses, offsets and sizes that are multiples of the disk's block size.
// This is an upper bound of common block sizes.
constexpr size_t kBlockBytes = 4096;

struct Free {
  void operator()(std::byte* data) const { std::free(data); }
};
using Piece = std::unique_ptr<std::byte, Free>;

// aligned_alloc() requires a size that is a multiple of the alignment, which kPieceBytes is. Memory
// from it is released by free().
Piece new_piece() {
  Piece piece(static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, BulkWriter::kPieceBytes)));
  if (!piece) throw std::bad_alloc();
  return piece;
}

// Writes bypassing the page cache as long as the file system supports it. Thread-safe.
class DirectFile {
 public:
  explicit DirectFile(int fd) : fd_(fd), begin_(std::max<off_t>(0, ::lseek(fd, 0, SEEK_CUR))) {}

  // Makes later writes of blocks bypass the page cache, if the file system supports it.
  void begin_direct() { direct_ = set_direct(true); }

  // `bytes` must be whole blocks in direct mode. `position` is relative to the initial file offset.
  int write(std::span<const std::byte> bytes, uint64_t position) {
    off_t at = begin_ + static_cast<off_t>(position);
    while (!bytes.empty()) {
      // If another writer resets `direct_` during the call, EINVAL must still lead to a retry.
      const bool direct = direct_;
      const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), at);
      if (written >= 0) {
        bytes = bytes.subspan(static_cast<size_t>(written));
        at += written;
      } else if (errno == EINVAL && direct && set_direct(false)) {
        direct_ =
            false;  // the disk has larger blocks, or an earlier short write broke the alignment
      } else if (errno != EINTR) {
        return errno;
      }
    }
    return 0;
  }

  // Writes the end of the file. No other write may be in flight.
  int write_tail(std::span<const std::byte> bytes, uint64_t position) {
    // Direct mode requires whole blocks, which the last bytes of a file may not fill.
    const size_t blocks = bytes.size() / kBlockBytes * kBlockBytes;
    if (const int error = write(bytes.first(blocks), position)) return error;
    if (blocks < bytes.size() && direct_.exchange(false) && !set_direct(false)) return errno;
    return write(bytes.subspan(blocks), position + blocks);
  }

 private:
  bool set_direct(bool wanted) {
    // O_DIRECT belongs to the open file description, so it changes for all threads at once.
    const int flags = ::fcntl(fd_, F_GETFL);
    const int changed = wanted ? flags | O_DIRECT : flags & ~O_DIRECT;
    return flags >= 0 && ::fcntl(fd_, F_SETFL, changed) == 0;
  }

  const int fd_;
  const off_t begin_;
  std::atomic<bool> direct_{false};
};

}  // namespace

// Buffers form a ring: piece n occupies slot n % kPieces until it is written and observed.
struct BulkWriter::Impl {
  DirectFile file;
  std::vector<Observer> observers;
  std::array<Piece, kPieces> pieces;
  size_t in_last = 0;  // bytes in the piece that the caller is filling

  std::mutex mutex;
  std::condition_variable writable, observable, room;
  uint64_t filled = 0, to_write = 0;    // pieces
  std::vector<uint64_t> to_observe;     // next piece per observer
  std::array<size_t, kPieces> users{};  // per slot: pending writers and observers
  bool ended = false;
  int error = 0;
  // Assigns writing and observing to threads, or to the caller if a thread could not be created.
  struct Crew {
    bool begun = false, caller_writes = false;
    std::vector<size_t> caller_observes;  // indices of observers
    ThreadGroup threads;
  } crew;

  Impl(int fd, std::vector<Observer> observers_in)
      : file(fd), observers(std::move(observers_in)), to_observe(observers.size()) {}

  std::span<const std::byte> piece(uint64_t number) const {
    return {pieces[number % kPieces].get(), kPieceBytes};
  }

  void hand_over() {
    {
      const std::lock_guard lock(mutex);
      // One user for the writer, and one per observer. The slot is free when all have finished.
      users[filled % kPieces] = 1 + observers.size();
      ++filled;
      in_last = 0;
    }
    writable.notify_one();
    // One notification suffices for the writers, because one of them handles the piece. Every
    // observer must process the piece.
    observable.notify_all();
    if (!crew.begun) start();
    catch_up();
  }

  // Called with the first full piece. Files smaller than a piece, which are most files, go through
  // the page cache: they are read again soon.
  void start() {
    crew.begun = true;
    file.begin_direct();
    const auto write_all = [this] { follow(writable, to_write, [this](auto n) { write(n); }); };
    for (size_t i = 0; i < kWriters; ++i)
      if (!crew.threads.start(write_all)) break;
    // One writer is enough to make progress, so the caller helps only if none started.
    crew.caller_writes = crew.threads.size() == 0;
    for (size_t i = 0; i < observers.size(); ++i)
      if (!crew.threads.start([this, i] {
            follow(observable, to_observe[i], [this, i](auto n) { observers[i](piece(n)); });
          }))
        crew.caller_observes.push_back(i);
  }

  // Performs the work for which no thread could be created.
  void catch_up() {
    if (crew.caller_writes) finish_pieces(to_write, [this](auto n) { write(n); });
    for (const size_t i : crew.caller_observes)
      finish_pieces(to_observe[i], [this, i](auto n) { observers[i](piece(n)); });
  }

  template <class Work>
  void finish_pieces(uint64_t& next, Work work) {
    while (next < filled) {
      // `next` and `filled` need no lock: only the caller's thread changes them if it does this
      // work.
      const uint64_t number = next++;
      work(number);
      const std::lock_guard lock(mutex);
      --users[number % kPieces];
    }
  }

  // Processes full pieces, starting at `next`, until the end of the file.
  template <class Work>
  void follow(std::condition_variable& more, uint64_t& next, Work work) {
    std::unique_lock lock(mutex);
    while (true) {
      // `ended` alone does not stop the loop: filled pieces are processed first. Writers share
      // `next`; the mutex guards it.
      more.wait(lock, [&] { return next < filled || ended; });
      if (next == filled) return;
      const uint64_t number = next++;
      lock.unlock();
      work(number);
      lock.lock();
      if (--users[number % kPieces] == 0) room.notify_one();
    }
  }

  // After a failure the remaining pieces are dropped; append() reports the error with the next
  // piece.
  void write(uint64_t number) {
    {
      const std::lock_guard lock(mutex);
      if (error != 0) return;
    }
    const int failed = file.write(piece(number), number * kPieceBytes);
    const std::lock_guard lock(mutex);
    if (error == 0) error = failed;
  }

  // Waits until the next slot is free. Returns the errno of the first failure so far, or 0.
  int wait_for_room() {
    std::unique_lock lock(mutex);
    const size_t slot = filled % kPieces;
    room.wait(lock, [&] { return users[slot] == 0; });
    if (!pieces[slot]) pieces[slot] = new_piece();
    return error;
  }

  void end() {
    {
      const std::lock_guard lock(mutex);
      ended = true;
    }
    writable.notify_all();
    observable.notify_all();
    crew.threads.join();
  }
};

BulkWriter::BulkWriter(int fd, std::vector<Observer> observers)
    : impl_(std::make_unique<Impl>(fd, std::move(observers))) {}

BulkWriter::~BulkWriter() { impl_->end(); }

int BulkWriter::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (const int error = impl_->wait_for_room()) return error;
    const size_t count = std::min(bytes.size(), kPieceBytes - impl_->in_last);
    std::byte* piece = impl_->pieces[impl_->filled % kPieces].get();
    std::memcpy(piece + impl_->in_last, bytes.data(), count);
    impl_->in_last += count;
    bytes = bytes.subspan(count);
    if (impl_->in_last == kPieceBytes) impl_->hand_over();
  }
  return 0;
}

int BulkWriter::finish() {
  impl_->end();
  const std::span rest = impl_->piece(impl_->filled).first(std::exchange(impl_->in_last, 0));
  // end() has joined all threads, so no lock is needed.
  if (rest.empty()) return impl_->error;
  if (impl_->error == 0) impl_->error = impl_->file.write_tail(rest, impl_->filled * kPieceBytes);
  for (const Observer& observer : impl_->observers) observer(rest);
  return impl_->error;
}

}  // namespace moec
