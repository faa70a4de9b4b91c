// The way every input file is opened: a regular file, opened once and read through one descriptor.
// Symlinks are followed, because the folders of the Hugging Face cache are links into a store of
// blobs. Folders, devices and pipes are refused without being read: a pipe that nobody writes to
// would block forever, and a device may have no end.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"

namespace moec {

// Which file a path names, and which state of it: taken when a file is first read and compared at
// each later open, so that two versions of a file never end in one result.
struct FileIdentity {
  uint64_t device = 0, inode = 0;
  uint64_t bytes = 0;
  int64_t written_ns = 0;  // the last write (mtime), since 1970
  bool operator==(const FileIdentity&) const = default;
};

// The change of status (ctime) is left out: a hard link or chmod moves it and leaves the content.
FileIdentity identity_of(const struct stat& status);

// What happened to a file between the two, as the cause of an error; empty if nothing did.
std::optional<std::string> change_between(const FileIdentity& then, const FileIdentity& now);

class RegularFile {
 public:
  // Errors: file.open (with the system's reason), file.not_regular.
  static Result<RegularFile> open(const std::string& path);
  // Takes over what an open() call returned, which was not to wait (O_NONBLOCK); `path` is for
  // messages. Below 0: errno says why. Errors as above.
  static Result<RegularFile> adopt(const std::string& path, int descriptor);
  ~RegularFile();
  RegularFile(RegularFile&& other) noexcept;
  RegularFile& operator=(RegularFile&& other) noexcept;
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return identity_.bytes; }           // when the file was opened
  const FileIdentity& identity() const { return identity_; }  // when the file was opened

  // Reads `size` bytes from `offset`. The range must lie inside the file, which is checked before
  // anything is allocated. Errors: file.truncated, file.read.
  Result<std::string> read(uint64_t offset, uint64_t size) const;
  // The same into the caller's buffer, as many bytes as it has.
  Status read_into(uint64_t offset, std::span<char> bytes) const;

  // Fails with file.changed if the open file was written to, or has another size than at opening.
  Status check_unchanged() const;

 private:
  RegularFile(std::string path, int descriptor, const FileIdentity& identity)
      : path_(std::move(path)), descriptor_(descriptor), identity_(identity) {}

  Status check_range(uint64_t offset, uint64_t size) const;

  std::string path_;
  int descriptor_ = -1;
  FileIdentity identity_;
};

// Refuses what Git LFS leaves in the place of a large file that was not fetched, by its first
// bytes. Error file.lfs_pointer.
Status check_no_lfs_pointer(std::string_view start, const std::string& path);

// The whole text of a file of at most `limit` bytes. Errors: those of RegularFile, file.too_big,
// file.lfs_pointer.
Result<std::string> read_text_file(const std::string& path, uint64_t limit);

inline constexpr uint64_t kMaxUserTextBytes = 256 << 20;

// The text of a file that the user named: a regular file, not empty, of at most kMaxUserTextBytes.
// Every error has the code `code`.
Result<std::string> read_user_text(const std::string& path, const std::string& code);

// Whether the path names anything: a file, a folder, a device.
bool file_exists(const std::string& path);

}  // namespace moec
