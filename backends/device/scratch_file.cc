#include "backends/device/scratch_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "backends/files/folder.h"
#include "backends/files/write_error.h"
#include "ir/base/output_apart.h"
#include "ir/base/splitmix64.h"

namespace moec {
namespace {

constexpr std::string_view kScratchEnding = ".scratch";
constexpr uint64_t kPieceWords = (uint64_t{1} << 20) / sizeof(uint64_t);

// Fills a piece with random numbers whose 16-bit words lie between 0x3800 and 0x3fff. As f16, f32
// and bf16, all of these are normal numbers below 2: products of subnormal numbers and of
// infinities have other speeds. As codes, half of the bytes are arbitrary.
void fill(std::vector<uint64_t>& words, uint64_t first) {
  for (size_t i = 0; i < words.size(); ++i)
    words[i] = (splitmix64(first + i) & 0x07ff07ff07ff07ffu) | 0x3800380038003800u;
}

// Returns 0 or the errno of the failure.
int write_piece(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return 0;
}

// Writes the numbers and closes the file. Unlike OutputFile, writes under the final name, because
// remove_abandoned() finds no other name after a kill.
Status write_numbers(int descriptor, const std::string& path, uint64_t bytes) {
  std::vector<uint64_t> words(kPieceWords);
  int error = 0;
  for (uint64_t at = 0; at < bytes && error == 0; at += kPieceWords * sizeof(uint64_t)) {
    fill(words, at);
    error = write_piece(descriptor, std::as_bytes(std::span(words)));
  }
  // Pages that are not on the disk yet could not be dropped from the page cache.
  if (error == 0 && ::fsync(descriptor) != 0) error = errno;
  // Network file systems report some write errors only from close().
  if (::close(descriptor) != 0 && error == 0) error = errno;
  if (error != 0) return write_error(error, "write", path);
  return {};
}

// Makes the next reads come from the disk. The system may ignore the advice, for example if the
// file system is in memory.
void drop_from_page_cache(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  ::close(descriptor);
}

}  // namespace

Result<ScratchFile> ScratchFile::create(const std::string& folder, uint64_t bytes) {
  constexpr std::string_view kBase = "moec-doctor";
  remove_abandoned((std::filesystem::path(folder) / kBase).string(), kScratchEnding);
  MOEC_ASSIGN(const Folder parent, Folder::open(folder));
  const std::string name = fmt::format("{}.{}{}", kBase, ::getpid(), kScratchEnding);
  // Replaces a file of this name: a killed run left it if it had the same process id, as is usual
  // in containers.
  MOEC_ASSIGN(const int descriptor, parent.create_file(name));
  // Owns the path from here on, so that a failed write removes the file.
  ScratchFile scratch(parent.path_of(name));
  MOEC_TRY(write_numbers(descriptor, scratch.path_, bytes));
  drop_from_page_cache(scratch.path_);
  MOEC_ASSIGN(PayloadFile file, PayloadFile::open({.path = scratch.path_, .bytes = bytes}));
  scratch.file_ = std::make_unique<PayloadFile>(std::move(file));
  return scratch;
}

ScratchFile::ScratchFile(ScratchFile&& other) noexcept
    : path_(std::exchange(other.path_, {})), file_(std::move(other.file_)) {}

ScratchFile::~ScratchFile() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

}  // namespace moec
