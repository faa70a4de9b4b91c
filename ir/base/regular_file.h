// A regular file, opened for reading once and read through one descriptor. Symlinks are followed:
// the folders of the Hugging Face cache are links into a store of blobs. What they lead to must be
// a regular file; folders, devices and pipes are refused without being read.
#pragma once

#include <cstdint>
#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

class RegularFile {
 public:
  // Errors: file.open (with the system's reason), file.not_regular.
  static Result<RegularFile> open(const std::string& path);
  ~RegularFile();
  RegularFile(RegularFile&& other) noexcept;
  RegularFile& operator=(RegularFile&& other) noexcept;
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // when it was opened

  // `size` bytes from `offset`, which must lie inside the file (checked before anything is
  // allocated). Errors: file.truncated, file.read.
  Result<std::string> read(uint64_t offset, uint64_t size) const;

  // Error file.changed when the size is no longer the one at opening.
  Status check_unchanged() const;

 private:
  RegularFile(std::string path, int descriptor, uint64_t size)
      : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

  std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

// The whole text of a file of at most `limit` bytes. Errors: as above, and file.too_big.
Result<std::string> read_text_file(const std::string& path, uint64_t limit);

// The text of a file that the user named; `code` is the error's.
Result<std::string> read_user_text(const std::string& path, const std::string& code);

bool file_exists(const std::string& path);

}  // namespace moec
