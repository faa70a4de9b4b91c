#include "backends/files/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "backends/files/write_error.h"

namespace moec {

static int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    // A write may be short, for example on a nearly full disk. The next call then returns the
    // error.
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

Result<AppendFile> AppendFile::open(std::string path) {
  // O_APPEND makes each write start at the end, also after append() has truncated the file.
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) return write_error(errno, "open", path);
  return AppendFile(std::move(path), descriptor);
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status AppendFile::append(std::string_view record) {
  struct stat before {};
  // The size before the record is the position to which a failed write is cut back.
  if (::fstat(descriptor_, &before) != 0) return write_error(errno, "examine", path_);
  int error = write_all(descriptor_, record);
  // fdatasync() flushes the data and the new file size, which readers of the record need. It need
  // not flush the timestamps.
  if (error == 0 && ::fdatasync(descriptor_) != 0) error = errno;
  if (error == 0) return {};
  // A partial record would otherwise be joined with the next one into one damaged line.
  const bool cut = ::ftruncate(descriptor_, before.st_size) == 0;
  return write_error(error, cut ? "write" : "write and cut", path_);
}

Status AppendFile::check_present() const {
  struct stat opened {};
  struct stat named {};
  if (::fstat(descriptor_, &opened) != 0) return write_error(errno, "examine", path_);
  if (::lstat(path_.c_str(), &named) != 0) return write_error(errno, "find", path_);
  if (opened.st_dev != named.st_dev || opened.st_ino != named.st_ino)
    return write_error(ENOENT, "find", path_);
  return {};
}

}  // namespace moec
