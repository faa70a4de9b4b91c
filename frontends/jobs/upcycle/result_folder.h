// The folder of a new checkpoint, which appears under its name only when it is complete: it is
// filled under another name beside it, flushed, and renamed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backends/output/folder_lock.h"
#include "ir/base/diagnostics.h"

namespace moec {

class ResultFolder {
 public:
  // Checks that `folder` is free or may be replaced, and begins an empty one for `bytes` of files
  // beside it. What an interrupted run left there is removed. Errors: those of Folder and
  // FolderLock, and
  //   upcycle.out_exists   there is a checkpoint already, and `force` is not set
  //   upcycle.out_foreign  `force` is set, but moec upcycle did not write what is there
  //   upcycle.no_space     the file system has less room than `bytes`
  static Result<ResultFolder> begin(const std::string& folder, uint64_t bytes, bool force);

  ResultFolder(ResultFolder&&) noexcept = default;
  ResultFolder& operator=(ResultFolder&&) = delete;
  // Removes the unfinished folder unless it was published.
  ~ResultFolder();

  // Where the files go.
  const std::string& path() const { return path_; }

  // Flushes the files and gives the folder its name. An earlier result is exchanged for it in one
  // step where the system can, and removed. Errors: those of write_error.h.
  Status publish() &&;

 private:
  ResultFolder(std::string folder, std::string path, FolderLock lock)
      : folder_(std::move(folder)),
        path_(std::move(path)),
        lock_(std::make_unique<FolderLock>(std::move(lock))) {}

  std::string folder_, path_;
  std::unique_ptr<FolderLock> lock_;  // null once it is published
};

}  // namespace moec
