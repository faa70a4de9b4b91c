// A file that grows by whole records, each on disk before the next: a journal.
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

  // On disk when it returns. What a failure leaves behind the last whole record is cut off again,
  // where the disk still lets it.
  Status append(std::string_view record);

  // The path still leads to this file: emit.folder_gone where it does not.
  Status check_present() const;

 private:
  AppendFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_ = -1;
};

}  // namespace moec
