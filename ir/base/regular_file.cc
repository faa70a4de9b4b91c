#include "ir/base/regular_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace moec {

Result<RegularFile> RegularFile::open(const std::string& path) {
  // O_NONBLOCK: opening a pipe must not wait for its other end.
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    return fail("file.open", fmt::format("cannot open the file: {}", std::strerror(errno)),
                "Check the path and its permissions.", {.file = path});
  struct stat info {};
  bool regular = ::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
  RegularFile file(path, descriptor, regular ? static_cast<uint64_t>(info.st_size) : 0);
  if (!regular)
    return fail("file.not_regular", "this is not a regular file",
                "Give a file, or a link to one; folders, devices and pipes are not read.",
                {.file = path});
  return file;
}

RegularFile::~RegularFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

RegularFile::RegularFile(RegularFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

RegularFile& RegularFile::operator=(RegularFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

Status RegularFile::check_range(uint64_t offset, uint64_t size) const {
  if (offset <= size_ && size <= size_ - offset) return {};
  return fail(
      "file.truncated",
      fmt::format("bytes {} to {} were to be read, the file has {}", offset, offset + size, size_),
      "The file is incomplete: fetch it again.", {.file = path_, .offset = size_});
}

Result<std::string> RegularFile::read(uint64_t offset, uint64_t size) const {
  MOEC_TRY(check_range(offset, size));  // before the bytes are allocated
  std::string bytes(size, '\0');
  MOEC_TRY(read_into(offset, bytes));
  return bytes;
}

Status RegularFile::read_into(uint64_t offset, std::span<char> bytes) const {
  MOEC_TRY(check_range(offset, bytes.size()));
  for (uint64_t done = 0; done < bytes.size();) {
    const ssize_t count = ::pread(descriptor_, bytes.data() + done, bytes.size() - done,
                                  static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      return fail("file.read",
                  fmt::format("cannot read the file: {}",
                              count < 0 ? std::strerror(errno) : "it became shorter"),
                  {}, {.file = path_, .offset = offset + done});
    done += static_cast<uint64_t>(count);
  }
  return {};
}

Status RegularFile::check_unchanged() const {
  struct stat info {};
  if (::fstat(descriptor_, &info) == 0 && static_cast<uint64_t>(info.st_size) == size_) return {};
  return fail("file.changed",
              fmt::format("the file had {} bytes when it was opened, now {}", size_, info.st_size),
              "Something is writing to it; wait until that is finished.", {.file = path_});
}

Result<std::string> read_text_file(const std::string& path, uint64_t limit) {
  MOEC_ASSIGN(RegularFile file, RegularFile::open(path));
  if (file.size() > limit)
    return fail("file.too_big",
                fmt::format("the file has {} bytes, at most {} are read", file.size(), limit), {},
                {.file = path});
  return file.read(0, file.size());
}

Result<std::string> read_user_text(const std::string& path, const std::string& code) {
  Result<std::string> text = read_text_file(path, kMaxUserTextBytes);
  if (!text) {
    for (Diagnostic& error : text.error()) error.code = code;
    return text;
  }
  if (text->empty()) return fail(code, "the file is empty", "Check the path.", {.file = path});
  return text;
}

bool file_exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

}  // namespace moec
