// An append-only file of records, such as a journal. Each record is on disk before the next one is
// written.
#pragma once

#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"

namespace moec {

class AppendFile {
 public:
  // The file must exist. Errors, here and below: those of write_error.h.
  static Result<AppendFile> open(std::string path);

  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&& other) noexcept;
  ~AppendFile();

  // Returns when the record is on disk. After a failure, truncates a partial record if possible.
  Status append(std::string_view record);

  // Fails with emit.folder_gone if the path no longer refers to this file.
  Status check_present() const;

 private:
  AppendFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_ = -1;
};

}  // namespace moec
