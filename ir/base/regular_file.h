// Opens input files. An input is a regular file that is opened once and read through one
// descriptor. Symlinks are followed, because the Hugging Face cache consists of links to blobs.
// Folders, devices and pipes are rejected without being read: a pipe without a writer would block
// forever, and a device may be endless.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"

namespace moec {

// Identity and state of a file, recorded at the first read and compared at each later open, so that
// no result mixes two versions of a file.
struct FileIdentity {
  uint64_t device = 0, inode = 0;
  uint64_t bytes = 0;
  int64_t written_ns = 0;  // the last write (mtime), since 1970
  bool operator==(const FileIdentity&) const = default;
};

// Omits ctime: a hard link or chmod changes it without changing the content.
FileIdentity identity_of(const struct stat& status);

// Describes the difference between two states of a file, as the cause of an error. Empty if the
// states are equal.
std::optional<std::string> change_between(const FileIdentity& then, const FileIdentity& now);

class RegularFile {
 public:
  // Errors: file.open (with the system's reason), file.not_regular.
  static Result<RegularFile> open(const std::string& path);
  // Takes ownership of `descriptor`, the result of open() with O_NONBLOCK. If it is negative,
  // returns the error in errno. `path` is used in messages only. Errors as above.
  static Result<RegularFile> adopt(const std::string& path, int descriptor);
  ~RegularFile();
  RegularFile(RegularFile&& other) noexcept;
  RegularFile& operator=(RegularFile&& other) noexcept;
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return identity_.bytes; }           // when the file was opened
  const FileIdentity& identity() const { return identity_; }  // when the file was opened

  // Reads `size` bytes from `offset`. The range must lie inside the file; this is checked before
  // allocation. Errors: file.truncated, file.read.
  Result<std::string> read(uint64_t offset, uint64_t size) const;
  // Fills the caller's buffer with bytes.size() bytes from `offset`. Errors as above.
  Status read_into(uint64_t offset, std::span<char> bytes) const;

  // Error file.changed: the file was written to, or its size changed, after it was opened.
  Status check_unchanged() const;

 private:
  RegularFile(std::string path, int descriptor, const FileIdentity& identity)
      : path_(std::move(path)), descriptor_(descriptor), identity_(identity) {}

  Status check_range(uint64_t offset, uint64_t size) const;

  std::string path_;
  int descriptor_ = -1;
  FileIdentity identity_;
};

// Rejects a Git LFS pointer, the placeholder of a large file that was not downloaded. `start` is
// the start of the file. Error file.lfs_pointer.
Status check_no_lfs_pointer(std::string_view start, const std::string& path);

// Reads a file of at most `limit` bytes. Errors: file.too_big, file.lfs_pointer, and those of
// RegularFile.
Result<std::string> read_text_file(const std::string& path, uint64_t limit);

inline constexpr uint64_t kMaxUserTextBytes = 256 << 20;

// Reads a file that the user named, a non-empty regular file of at most kMaxUserTextBytes. Every
// error has the code `code`.
Result<std::string> read_user_text(const std::string& path, const std::string& code);

// True if the path exists, as a file, a folder or a device.
bool file_exists(const std::string& path);

}  // namespace moec
