// The output folder of moec upcycle. A new checkpoint is written into a hidden folder beside it and
// takes its name when it is complete. kUpcycleList names the files with their digests, so that
// --force replaces only what moec upcycle wrote.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/output/folder_lock.h"
#include "ir/base/diagnostics.h"

namespace moec {

inline constexpr const char* kUpcycleList = "moec_upcycle.json";

struct WrittenFile {
  std::string name;
  uint64_t bytes = 0;
  std::string digest;  // xxh3-128
};

class ResultFolder {
 public:
  // Checks that `folder` is free or may be replaced, and begins an empty one for `bytes` of files
  // beside it. What an interrupted run left there is removed. Errors: those of Folder and
  // FolderLock, and
  //   upcycle.out_exists   there is a checkpoint already, and `force` is not set
  //   upcycle.out_foreign  `force` is set, and the folder holds a file that moec upcycle did not
  //                        write
  //   output.changed       `force` is set, and a file was changed since moec upcycle wrote it
  //   upcycle.no_space     the file system has less room than `bytes`
  static Result<ResultFolder> begin(const std::string& folder, uint64_t bytes, bool force);

  ResultFolder(ResultFolder&&) noexcept = default;
  ResultFolder& operator=(ResultFolder&&) = delete;
  // Removes the unfinished folder unless it was published.
  ~ResultFolder();

  // Where the files go.
  const std::string& path() const { return path_; }

  // Writes the list of the files. Errors: those of OutputFile.
  Status list(const std::vector<WrittenFile>& files) const;

  // Flushes the files and gives the folder its name. An earlier result, which is checked once more,
  // is exchanged for it in one step if the system can, and removed. Errors: those of begin() and
  // write_error.h.
  Status publish() &&;

 private:
  ResultFolder(std::string folder, std::string path, bool force, FolderLock lock)
      : folder_(std::move(folder)),
        path_(std::move(path)),
        force_(force),
        lock_(std::make_unique<FolderLock>(std::move(lock))) {}

  std::string folder_, path_;
  bool force_;
  std::unique_ptr<FolderLock> lock_;  // null once it is published
};

}  // namespace moec
