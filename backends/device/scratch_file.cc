#include "backends/device/scratch_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "backends/files/output_file.h"
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

Status write_numbers(const std::string& path, uint64_t bytes) {
  MOEC_ASSIGN(OutputFile file, OutputFile::create(OutputPath::of_file(path), bytes));
  std::vector<uint64_t> words(kPieceWords);
  for (uint64_t at = 0; at < bytes; at += kPieceWords * sizeof(uint64_t)) {
    fill(words, at);
    MOEC_TRY(file.write(std::as_bytes(std::span(words))));
  }
  MOEC_TRY(file.sync());
  return file.publish();
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
  const std::string base = (std::filesystem::path(folder) / "moec-doctor").string();
  remove_abandoned(base, kScratchEnding);
  // Owns the path from here on, so that a failed write removes the file.
  ScratchFile scratch(fmt::format("{}.{}{}", base, ::getpid(), kScratchEnding));
  MOEC_TRY(write_numbers(scratch.path_, bytes));
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
