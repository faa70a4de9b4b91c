// Keeps two exports out of one folder, by a lock (flock) on a file in it. The system drops the lock
// with the process, however that ends: a file that is left behind locks nothing.
#pragma once

#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

inline constexpr const char* kLockFile = "export.lock";

class FolderLock {
 public:
  // The folder must exist. Errors: export.locked when somebody holds the lock, else those of
  // backends/files/write_error.h.
  static Result<FolderLock> take(const std::string& folder);

  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  // Removes the file.
  ~FolderLock();

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}

  std::string path_;  // empty: not held
  int descriptor_ = -1;
};

}  // namespace moec
