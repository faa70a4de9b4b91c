// Prevents two exports from writing to one folder, by flock on a file in it. The operating system
// releases the lock when the process ends for any reason, so a leftover lock file has no effect.
#pragma once

#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

inline constexpr const char* kLockFile = "export.lock";

class FolderLock {
 public:
  // Locks an existing folder without waiting. Errors: export.locked if another process or
  // FolderLock holds the lock, those of backends/files/write_error.h.
  static Result<FolderLock> take(const std::string& folder);

  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  // Removes the lock file and releases the lock.
  ~FolderLock();

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}

  std::string path_;  // path of the lock file; empty: not locked
  int descriptor_ = -1;
};

}  // namespace moec
