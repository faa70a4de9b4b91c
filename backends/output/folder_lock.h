// Prevents two exports from writing to one folder, by flock on a file in it. The operating system
// releases the lock when the process ends for any reason, so a leftover lock file has no effect.
// The shares of a divided export (part_folders.h) hold a shared lock of the whole export's folder.
#pragma once

#include <cstdint>
#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

inline constexpr const char* kLockFile = "export.lock";

enum class LockKind : uint8_t { exclusive, shared };

class FolderLock {
 public:
  // Locks an existing folder without waiting, except that a shared lock waits up to a second for
  // another holder that is about to remove the lock file. Errors: export.locked if another process
  // or FolderLock holds a lock that excludes this one, those of backends/files/write_error.h.
  static Result<FolderLock> take(const std::string& folder, LockKind kind = LockKind::exclusive);

  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  // Releases the lock, and removes the lock file if no other process holds it.
  ~FolderLock();

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}

  std::string path_;  // path of the lock file; empty: not locked
  int descriptor_ = -1;
};

}  // namespace moec
