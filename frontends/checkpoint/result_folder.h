// The output folder of a command that writes a checkpoint. The checkpoint is written into a hidden
// folder next to it, which is renamed when it is complete. CheckpointMaker::list_file() lists the
// files with their digests, so that --force replaces only files that the command wrote.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "backends/output/folder_lock.h"
#include "frontends/checkpoint/checkpoint_maker.h"
#include "ir/base/diagnostics.h"

namespace moec {

struct WrittenFile {
  std::string name;
  uint64_t bytes = 0;
  std::string digest;  // xxh3-128
};

// The files as in a report: path, bytes, xxh3.
nlohmann::ordered_json files_json(const std::vector<WrittenFile>& files);

class ResultFolder {
 public:
  // Checks that `folder` is free or may be replaced, and creates an empty folder next to it for
  // `bytes` of files. Removes the remains of an interrupted run. Errors: those of Folder and
  // FolderLock, and, the first three with the prefix of the command,
  //   out_exists      the folder is not empty, and `force` is not set
  //   out_foreign     `force` is set, and the folder contains a file that the command did not write
  //   no_space        the file system has fewer than `bytes` free
  //   output.changed  `force` is set, and a file was changed since the command wrote it
  static Result<ResultFolder> begin(const CheckpointMaker& maker, const std::string& folder,
                                    uint64_t bytes, bool force);

  ResultFolder(ResultFolder&&) noexcept = default;
  ResultFolder& operator=(ResultFolder&&) = delete;
  // Removes the unfinished folder unless it was published.
  ~ResultFolder();

  // The unfinished folder, which receives the files.
  const std::string& path() const { return path_; }

  // Writes the list of the files. Errors: those of OutputFile.
  Status list(const std::vector<WrittenFile>& files) const;

  // Flushes the files and renames the folder to its final name. Checks an earlier result once more,
  // exchanges the two atomically if the file system supports it, and removes the old one. Errors:
  // those of begin() and write_error.h.
  Status publish() &&;

 private:
  ResultFolder(const CheckpointMaker& maker, std::string folder, std::string path, bool force,
               FolderLock lock)
      : maker_(maker),
        folder_(std::move(folder)),
        path_(std::move(path)),
        force_(force),
        lock_(std::make_unique<FolderLock>(std::move(lock))) {}

  CheckpointMaker maker_;
  std::string folder_, path_;
  bool force_;
  std::unique_ptr<FolderLock> lock_;  // null after publish()
};

}  // namespace moec
