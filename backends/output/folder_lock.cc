#include "backends/output/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "backends/files/write_error.h"

namespace moec {
namespace {

// A holder of a shared lock makes it exclusive for a moment before it removes the lock file, which
// must not look like a running export to the other shares.
constexpr std::chrono::milliseconds kPause{20};
constexpr int kAttempts = 50;

// True if the opened file is still the one at `path`. A holder removes the lock file before it
// releases the lock. When flock succeeds, the opened file may already be unlinked, and another
// process may have locked a new file.
bool is_still_at(int descriptor, const std::string& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(descriptor, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

Result<FolderLock> FolderLock::take(const std::string& folder, LockKind kind) {
  const std::string path = folder + "/" + kLockFile;
  for (int attempt = 1;; ++attempt) {
    FolderLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (lock.descriptor_ < 0) return write_error(errno, "create", path);
    const int operation = kind == LockKind::shared ? LOCK_SH : LOCK_EX;
    if (::flock(lock.descriptor_, operation | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) return write_error(errno, "lock", path);
      if (kind == LockKind::shared && attempt < kAttempts) {
        std::this_thread::sleep_for(kPause);
        continue;
      }
      return fail("export.locked", "another process is writing to this folder",
                  "wait until it has finished, or choose another --out", {.file = folder});
    }
    // `path_` is still empty here, so the destructor does not unlink the file of the new holder.
    if (!is_still_at(lock.descriptor_, path)) continue;
    lock.path_ = path;
    return lock;
  }
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

FolderLock::~FolderLock() {
  if (descriptor_ < 0) return;
  // Unlinked before the lock is released: afterwards the file could already belong to another
  // holder. A shared lock becomes exclusive first, which fails if there are other holders.
  if (!path_.empty() && ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) ::unlink(path_.c_str());
  ::close(descriptor_);
}

}  // namespace moec
