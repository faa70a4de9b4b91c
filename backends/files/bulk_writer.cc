#include "backends/files/bulk_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "ir/invariant.h"

namespace moec {
namespace {

// What direct writes ask of addresses, positions and sizes: the block size of a disk or less.
constexpr size_t kBlockBytes = 4096;

struct Free {
  void operator()(std::byte* data) const { std::free(data); }
};
using Piece = std::unique_ptr<std::byte, Free>;

Piece new_piece() {
  Piece piece(static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, BulkWriter::kPieceBytes)));
  MOEC_CHECK(piece != nullptr, "no memory for {} bytes to write", BulkWriter::kPieceBytes);
  return piece;
}

// Writes past the page cache as long as it may.
class DirectFile {
 public:
  explicit DirectFile(int fd) : fd_(fd) {}

  // The next bytes, from a piece: a full one, or the end of the file. A file that has no full piece
  // goes through the cache, from where it will soon be read.
  int write(std::span<const std::byte> bytes) {
    const size_t blocks = bytes.size() / kBlockBytes * kBlockBytes;
    if (bytes.size() == BulkWriter::kPieceBytes && !std::exchange(tried_, true)) set_direct(true);
    if (const int error = write_all(bytes.first(blocks))) return error;
    if (blocks < bytes.size()) set_direct(false);
    return write_all(bytes.subspan(blocks));
  }

 private:
  // Where the file system refuses, all goes through the cache.
  void set_direct(bool wanted) {
    if (wanted == direct_) return;
    const int flags = ::fcntl(fd_, F_GETFL);
    const int changed = wanted ? flags | O_DIRECT : flags & ~O_DIRECT;
    if (flags >= 0 && ::fcntl(fd_, F_SETFL, changed) == 0) direct_ = wanted;
  }

  int write_all(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written >= 0) {
        bytes = bytes.subspan(static_cast<size_t>(written));
      } else if (errno == EINVAL && direct_) {
        set_direct(false);  // larger blocks than ours, or an earlier write that was cut short
        if (direct_) return EINVAL;
      } else if (errno != EINTR) {
        return errno;
      }
    }
    return 0;
  }

  int fd_;
  bool tried_ = false, direct_ = false;
};

}  // namespace

// Pieces are used in turn: number n lies in slot n % kPieces until it was written and observed.
struct BulkWriter::Impl {
  DirectFile file;
  Observer observer;
  std::array<Piece, kPieces> pieces;
  size_t in_last = 0;  // bytes in the piece that the caller fills

  std::mutex mutex;
  std::condition_variable changed;
  uint64_t filled = 0, written = 0, observed = 0;  // pieces
  bool ended = false;
  int error = 0;
  std::thread write_thread, observe_thread;

  Impl(int fd, Observer observer_in) : file(fd), observer(std::move(observer_in)) {}

  std::span<const std::byte> piece(uint64_t number) const {
    return {pieces[number % kPieces].get(), kPieceBytes};
  }

  // Threads come with the first full piece: most files are smaller.
  void hand_over() {
    {
      const std::lock_guard lock(mutex);
      ++filled;
      in_last = 0;
    }
    changed.notify_all();
    if (write_thread.joinable()) return;
    write_thread = std::thread([this] { follow(written, [this](auto bytes) { write(bytes); }); });
    if (observer)
      observe_thread = std::thread([this] { follow(observed, [this](auto b) { observer(b); }); });
  }

  // Does each full piece in turn, `done` being the number of the next, until no more will come.
  template <class Work>
  void follow(uint64_t& done, Work work) {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return done < filled || ended; });
      if (done == filled) return;
      lock.unlock();
      work(piece(done));
      lock.lock();
      ++done;
      changed.notify_all();
    }
  }

  // After a failure the rest is let go; the caller hears of it with its next piece.
  void write(std::span<const std::byte> bytes) {
    {
      const std::lock_guard lock(mutex);
      if (error != 0) return;
    }
    const int failed = file.write(bytes);
    const std::lock_guard lock(mutex);
    if (error == 0) error = failed;
  }

  // Until the piece to be filled is free. Returns the failure so far.
  int wait_for_room() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] {
      const uint64_t done = observer ? std::min(written, observed) : written;
      return filled - done < kPieces;
    });
    Piece& next = pieces[filled % kPieces];
    if (!next) next = new_piece();
    return error;
  }

  void end() {
    {
      const std::lock_guard lock(mutex);
      ended = true;
    }
    changed.notify_all();
    if (write_thread.joinable()) write_thread.join();
    if (observe_thread.joinable()) observe_thread.join();
  }
};

BulkWriter::BulkWriter(int fd, Observer observer)
    : impl_(std::make_unique<Impl>(fd, std::move(observer))) {}

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
  if (rest.empty()) return impl_->error;
  if (impl_->error == 0) impl_->error = impl_->file.write(rest);
  if (impl_->observer) impl_->observer(rest);
  return impl_->error;
}

}  // namespace moec
