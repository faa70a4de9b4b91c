#include "ir/base/regular_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace moec {

FileIdentity identity_of(const struct stat& status) {
  constexpr int64_t kSecond = 1'000'000'000;
  return {static_cast<uint64_t>(status.st_dev), static_cast<uint64_t>(status.st_ino),
          static_cast<uint64_t>(status.st_size),
          status.st_mtim.tv_sec * kSecond + status.st_mtim.tv_nsec};
}

std::optional<std::string> change_between(const FileIdentity& then, const FileIdentity& now) {
  if (now == then) return std::nullopt;
  // A replaced file can also differ in size and time, so device and inode are compared first.
  if (now.device != then.device || now.inode != then.inode)
    return "the file was replaced by another while it was in use";
  if (now.bytes != then.bytes)
    return fmt::format("the file had {} bytes when it was opened and has {} now", then.bytes,
                       now.bytes);
  return "the file was written to while it was in use";
}

Result<RegularFile> RegularFile::open(const std::string& path) {
  // O_NONBLOCK: opening a pipe must not block until a writer opens it.
  return adopt(path, ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

Result<RegularFile> RegularFile::adopt(const std::string& path, int descriptor) {
  if (descriptor < 0)
    return fail("file.open", fmt::format("cannot open the file: {}", std::strerror(errno)),
                "check the path and its permissions", {.file = path});
  struct stat info {};
  bool regular = ::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
  // `file` owns the descriptor before the check, so that its destructor closes it on an error.
  RegularFile file(path, descriptor, regular ? identity_of(info) : FileIdentity());
  if (!regular)
    return fail("file.not_regular", "the path is not a regular file",
                "pass a file or a link to one, not a folder, device or pipe", {.file = path});
  return file;
}

RegularFile::~RegularFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

RegularFile::RegularFile(RegularFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      identity_(other.identity_) {}

RegularFile& RegularFile::operator=(RegularFile&& other) noexcept {
  // After the swap, `other` owns the old descriptor, and its destructor closes it.
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(identity_, other.identity_);
  return *this;
}

Status RegularFile::check_range(uint64_t offset, uint64_t size) const {
  const uint64_t held = this->size();
  // Avoids offset + size, which could overflow: both can come from an untrusted header.
  if (offset <= held && size <= held - offset) return {};
  return fail(
      "file.truncated",
      fmt::format("expected bytes {} to {}, but the file has {}", offset, offset + size, held),
      "download the file again", {.file = path_, .offset = held});
}

Result<std::string> RegularFile::read(uint64_t offset, uint64_t size) const {
  MOEC_TRY(check_range(offset, size));  // before the bytes are allocated
  std::string bytes(size, '\0');
  MOEC_TRY(read_into(offset, bytes));
  return bytes;
}

Status RegularFile::read_into(uint64_t offset, std::span<char> bytes) const {
  MOEC_TRY(check_range(offset, bytes.size()));
  // pread() can return fewer bytes than requested, for example after a signal.
  for (uint64_t done = 0; done < bytes.size();) {
    const ssize_t count = ::pread(descriptor_, bytes.data() + done, bytes.size() - done,
                                  static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    // Zero means the end of the file: it has become shorter since it was opened.
    if (count <= 0)
      return fail("file.read",
                  fmt::format("cannot read the file: {}",
                              count < 0 ? std::strerror(errno) : "it was truncated"),
                  {}, {.file = path_, .offset = offset + done});
    done += static_cast<uint64_t>(count);
  }
  return {};
}

// fstat() examines the opened file, even if its path now refers to another file.
Status RegularFile::check_unchanged() const {
  struct stat info {};
  const bool known = ::fstat(descriptor_, &info) == 0;
  const auto change = change_between(identity_, known ? identity_of(info) : FileIdentity());
  if (!change) return {};
  return fail("file.changed", *change, "retry when no program writes to the file", {.file = path_});
}

// A pointer file has about 130 bytes. Its first line names the version of the specification.
Status check_no_lfs_pointer(std::string_view start, const std::string& path) {
  if (!start.starts_with("version https://git-lfs.github.com/spec/")) return {};
  return fail("file.lfs_pointer", "the file is a Git LFS pointer, not the content",
              "download the content with git lfs pull", {.file = path});
}

Result<std::string> read_text_file(const std::string& path, uint64_t limit) {
  MOEC_ASSIGN(RegularFile file, RegularFile::open(path));
  if (file.size() > limit)
    return fail("file.too_big",
                fmt::format("the file has {} bytes, the maximum is {}", file.size(), limit), {},
                {.file = path});
  MOEC_ASSIGN(std::string text, file.read(0, file.size()));
  MOEC_TRY(check_no_lfs_pointer(text, path));
  return text;
}

Result<std::string> read_user_text(const std::string& path, const std::string& code) {
  Result<std::string> text = read_text_file(path, kMaxUserTextBytes);
  if (!text) {
    for (Diagnostic& error : text.error()) error.code = code;
    return text;
  }
  if (text->empty()) return fail(code, "the file is empty", "check the path", {.file = path});
  return text;
}

bool file_exists(const std::string& path) {
  struct stat info {};
  // stat() follows links, so a dangling link does not exist in this sense.
  return ::stat(path.c_str(), &info) == 0;
}

}  // namespace moec
