// Prevents two exports from writing to one folder, by a lock (flock) on a file in it. The operating
// system releases the lock when the process ends, in whatever way, so a lock file that is left
// behind locks nothing.
#pragma once

#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

inline constexpr const char* kLockFile = "export.lock";

class FolderLock {
 public:
  // Locks a folder, which must exist. Does not wait. Errors: export.locked when another process or
  // another FolderLock holds the lock, those of backends/files/write_error.h.
  static Result<FolderLock> take(const std::string& folder);

  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  // Removes the lock file and releases the lock.
  ~FolderLock();

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}

  std::string path_;  // of the lock file; empty: the lock is not held
  int descriptor_ = -1;
};

}  // namespace moec
