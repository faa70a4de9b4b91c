#include "backends/files/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "backends/files/bulk_writer.h"
#include "backends/files/digest.h"
#include "backends/files/sha.h"
#include "backends/files/write_error.h"
#include "ir/base/invariant.h"
#include "ir/base/output_apart.h"

namespace moec {
namespace {

// Sets the file's size in advance, so that writes can run in parallel. Only a lack of space is an
// error, because some file systems cannot reserve space.
Status reserve(int fd, uint64_t bytes, const std::string& path) {
  if (bytes == 0) return {};
  int failed = 0;
  do {
    // posix_fallocate() would write to every block if the file system cannot reserve space.
    failed = fallocate(fd, 0, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  } while (failed == EINTR);
  if (failed == ENOSPC || failed == EDQUOT || failed == EFBIG)
    return write_error(failed, fmt::format("reserve {} bytes for", bytes), path);
  return {};
}

}  // namespace

std::string temporary_of(const std::string& path) { return path + ".part"; }

struct OutputFile::Impl {
  Impl(Folder folder_in, std::string name_in, const OutputPath& path_in)
      : folder(std::move(folder_in)),
        name(std::move(name_in)),
        temporary(temporary_of(path_in.mark.empty() ? name : name + "." + path_in.mark)),
        path(path_in.text()) {}

  Folder folder;
  std::string name, temporary;  // in the folder
  std::string path;             // of the final file
  int fd = -1;
  uint64_t bytes = 0, expected = 0;
  Digest digest;
  std::optional<Sha> sha;
  std::string sha256;
  std::unique_ptr<BulkWriter> writer;  // while the file is open
  bool closed = false, published = false;

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    // The threads of `writer` use `fd`, so they end before close().
    writer.reset();
    // If create_file() failed, this object has no temporary file to remove.
    const bool created = fd >= 0 || closed;
    if (fd >= 0) ::close(fd);
    if (created && !published) (void)folder.remove_file(temporary);
  }
};

OutputFile::OutputFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OutputFile::OutputFile(OutputFile&&) noexcept = default;
OutputFile& OutputFile::operator=(OutputFile&&) noexcept = default;
OutputFile::~OutputFile() = default;

Result<OutputFile> OutputFile::create(const OutputPath& path, uint64_t expected_bytes, bool sha256,
                                      Observer observer) {
  const SplitPath name = split_path(path.name);
  MOEC_ASSIGN(const Folder root, Folder::create(path.folder));
  // Only temporary names with a `mark` contain a process id, which remove_abandoned() requires.
  if (!path.mark.empty()) remove_abandoned(path.text(), temporary_of(""));
  MOEC_ASSIGN(Folder folder, root.create_below(name.parent));
  auto impl = std::make_unique<Impl>(std::move(folder), name.leaf, path);
  MOEC_ASSIGN(impl->fd, impl->folder.create_file(impl->temporary));
  MOEC_TRY(reserve(impl->fd, expected_bytes, impl->path));
  impl->expected = expected_bytes;
  std::vector<BulkWriter::Observer> observers;
  if (observer) observers.push_back(std::move(observer));
  if (sha256) {
    impl->sha.emplace(ShaKind::sha256);
    // The address of the digest is stable: it lies in the Impl, which OutputFile moves as a whole
    // by pointer.
    observers.emplace_back([sha = &*impl->sha](auto bytes) { sha->update(bytes); });
  }
  impl->writer = std::make_unique<BulkWriter>(impl->fd, std::move(observers));
  return OutputFile(std::move(impl));
}

Status OutputFile::write(std::span<const std::byte> bytes) {
  // Updated on the caller's thread, unlike SHA-256: digest() covers all bytes so far, and XXH3 is
  // much faster than SHA-256.
  impl_->digest.update(bytes);
  impl_->bytes += bytes.size();
  if (const int error = impl_->writer->append(bytes))
    return write_error(error, "write", impl_->path);
  return {};
}

Status OutputFile::pad_to(uint64_t position) {
  static constexpr std::array<std::byte, 4096> kZeros{};
  while (impl_->bytes < position)
    MOEC_TRY(
        write(std::span(kZeros).first(std::min<uint64_t>(kZeros.size(), position - impl_->bytes))));
  return {};
}

Status OutputFile::finish() {
  if (const int error = impl_->writer->finish()) return write_error(error, "write", impl_->path);
  impl_->writer.reset();
  if (impl_->sha) impl_->sha256 = impl_->sha->finish_hex();
  // reserve() may have set the size to `expected`, so a shorter file would end in zeros.
  if (impl_->bytes < impl_->expected &&
      ::ftruncate(impl_->fd, static_cast<off_t>(impl_->bytes)) != 0)
    return write_error(errno, "cut", impl_->path);
  return {};
}

Status OutputFile::sync() {
  MOEC_TRY(finish());
  if (::fsync(impl_->fd) != 0) return write_error(errno, "flush", impl_->path);
  return close_file();
}

Status OutputFile::close() {
  MOEC_TRY(finish());
  return close_file();
}

Status OutputFile::close_file() {
  // Set before close(): the descriptor is invalid afterwards even if close() fails.
  impl_->closed = true;
  // After this, only the name identifies the temporary file.
  if (::close(std::exchange(impl_->fd, -1)) != 0) return write_error(errno, "close", impl_->path);
  return {};
}

Status OutputFile::remove_older() const { return impl_->folder.remove_file(impl_->name); }

Status OutputFile::publish() {
  MOEC_CHECK(impl_->closed, "{} was published before it was closed", impl_->path);
  MOEC_TRY(impl_->folder.rename(impl_->temporary, impl_->name));
  impl_->published = true;
  return {};
}

const std::string& OutputFile::path() const { return impl_->path; }
uint64_t OutputFile::bytes() const { return impl_->bytes; }

std::string OutputFile::digest() const { return impl_->digest.hex(); }
const std::string& OutputFile::sha256() const { return impl_->sha256; }

Result<OutputFile> write_synced(const OutputPath& path, std::string_view bytes, bool sha256) {
  MOEC_ASSIGN(OutputFile file, OutputFile::create(path, bytes.size(), sha256));
  MOEC_TRY(file.write(std::as_bytes(std::span(bytes))));
  MOEC_TRY(file.sync());
  return file;
}

Status write_file(const OutputPath& path, std::string_view bytes) {
  MOEC_ASSIGN(OutputFile file, write_synced(path, bytes));
  return file.publish();
}

// For targets that are not regular files, which a rename would replace: /dev/stdout, a pipe, a
// link.
static Status write_through(const std::string& path, std::string_view bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY | O_CLOEXEC, 0644);
  if (fd < 0) return write_error(errno, "open", path);
  int error = 0;
  while (!bytes.empty() && error == 0) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
    if (written < 0 && errno != EINTR) error = errno;
  }
  // Network file systems report some write errors only from close().
  if (::close(fd) != 0 && error == 0) error = errno;
  if (error != 0) return write_error(error, "write", path);
  return {};
}

Status write_user_file(const std::string& path, std::string_view bytes) {
  struct stat info {};
  // lstat(), so that a link counts as a link and its target is written, as with a shell
  // redirection.
  const bool exists = ::lstat(path.c_str(), &info) == 0;
  if (exists && !S_ISREG(info.st_mode)) return write_through(path, bytes);
  return write_file(OutputPath::of_file(path), bytes);
}

}  // namespace moec
