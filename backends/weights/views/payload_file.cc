#include "backends/weights/views/payload_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

namespace moec {
namespace {

// The end of the block that contains the last byte before `end`.
uint64_t blocks_end(uint64_t end) {
  constexpr uint64_t kBlock = PayloadFile::kBlockBytes;
  return (end + kBlock - 1) / kBlock * kBlock;
}

auto changed(const std::string& path, std::string cause) {
  return fail("weights.file_changed", std::move(cause),
              "check that the file is complete and no program writes to it, then retry",
              {.file = path});
}

auto system_failure(std::string code, std::string_view what, const std::string& path) {
  // Saved first: format() may change errno.
  const int reason = errno;
  return fail(std::move(code), fmt::format("{}: {}", what, std::strerror(reason)),
              "check that the file exists and is readable", {.file = path});
}

// Returns true if mincore() reports which pages are cached. Linux reports all pages as cached to
// users without write permission; for them, is_cached() returns false.
bool may_ask(const struct stat& status, const std::string& path) {
  return status.st_uid == ::geteuid() || ::access(path.c_str(), W_OK) == 0;
}

}  // namespace

PayloadFile::Mapping::~Mapping() { ::munmap(pages, bytes); }

std::shared_ptr<PayloadFile::Mapping> PayloadFile::map_pages(int descriptor,
                                                             const FileIdentity& identity) {
  using Key = std::tuple<uint64_t, uint64_t, uint64_t, int64_t>;
  // Never destroyed, because files can be closed after the end of main().
  static auto& mappings = *new std::map<Key, std::weak_ptr<Mapping>>();
  static std::mutex one_at_a_time;
  const std::scoped_lock lock(one_at_a_time);
  std::weak_ptr<Mapping>& known =
      mappings[{identity.device, identity.inode, identity.bytes, identity.written_ns}];
  if (auto mapping = known.lock()) return mapping;
  if (identity.bytes == 0) return nullptr;
  // Failure is not an error: read() needs no mapping, and WeightReader checks mapped() for null.
  void* pages = ::mmap(nullptr, identity.bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (pages == MAP_FAILED) return nullptr;
  auto mapping = std::make_shared<Mapping>();
  mapping->pages = static_cast<std::byte*>(pages);
  mapping->bytes = identity.bytes;
  known = mapping;
  return mapping;
}

// O_NONBLOCK prevents open() from waiting for a writer if the path names a pipe.
Result<PayloadFile> PayloadFile::open(const WeightFile& file) {
  PayloadFile opened(file.path, ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (opened.descriptor_ < 0) return system_failure("weights.open", "cannot open", file.path);
  struct stat status {};
  if (::fstat(opened.descriptor_, &status) != 0)
    return system_failure("weights.open", "cannot examine", file.path);
  if (!S_ISREG(status.st_mode))
    return fail("weights.not_a_file", "a checkpoint file must be a regular file",
                "choose a regular file", {.file = file.path});
  opened.identity_ = identity_of(status);
  if (opened.size() != file.bytes)
    return changed(file.path, fmt::format("the file has {} bytes, but had {} when its header was "
                                          "read",
                                          opened.size(), file.bytes));
  const auto change = change_between(file.identity.value_or(opened.identity_), opened.identity_);
  if (change) return changed(file.path, *change);
  opened.direct_ = ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_DIRECT);
  opened.mapping_ = map_pages(opened.descriptor_, opened.identity_);
  opened.may_ask_ = may_ask(status, file.path);
  return opened;
}

PayloadFile::PayloadFile(PayloadFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      direct_(std::exchange(other.direct_, -1)),
      mapping_(std::move(other.mapping_)),
      may_ask_(other.may_ask_),
      identity_(other.identity_) {}

PayloadFile& PayloadFile::operator=(PayloadFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(direct_, other.direct_);
  std::swap(mapping_, other.mapping_);
  std::swap(may_ask_, other.may_ask_);
  std::swap(identity_, other.identity_);
  return *this;
}

PayloadFile::~PayloadFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (direct_ >= 0) ::close(direct_);
}

// Checks the path, not the open descriptor, which still refers to the old file after a replacement.
Status PayloadFile::check_unchanged() const {
  struct stat now {};
  if (::stat(path_.c_str(), &now) != 0) {
    if (errno == ENOENT) return changed(path_, "the file was removed while in use");
    return system_failure("weights.read", "cannot examine", path_);
  }
  if (const auto change = change_between(identity_, identity_of(now)))
    return changed(path_, *change);
  if (mapping_ && mapping_->unreadable.load(std::memory_order_relaxed))
    return fail("weights.read", "part of the file is unreadable",
                "check the disk that contains the file", {.file = path_});
  return {};
}

bool PayloadFile::continues(const Piece& piece, const Piece& next) {
  return next.begin >= piece.end &&
         next.begin / kBlockBytes * kBlockBytes <= blocks_end(piece.end) + kGapBytes;
}

// Bytes between two pieces go to memory that nobody reads. Two pieces that share a block need its
// bytes twice, but a call can store them only once: the last block of the first piece is copied to
// the second one.
Status PayloadFile::read_pieces(std::span<const Piece> pieces) const {
  alignas(kBlockBytes) thread_local std::array<std::byte, kGapBytes> gap;
  const uint64_t first = pieces.front().begin / kBlockBytes * kBlockBytes;
  std::vector<iovec> targets;
  uint64_t next = first;  // first block that no target has
  for (const Piece& piece : pieces) {
    const uint64_t begin = piece.begin / kBlockBytes * kBlockBytes, end = blocks_end(piece.end);
    if (begin > next) targets.push_back({gap.data(), static_cast<size_t>(begin - next)});
    next = std::max(next, begin);
    if (end > next) targets.push_back({piece.to + (next - begin), static_cast<size_t>(end - next)});
    next = std::max(next, end);
  }
  const ssize_t got =
      ::preadv(descriptor_for(first, static_cast<size_t>(next - first)), targets.data(),
               static_cast<int>(targets.size()), static_cast<off_t>(first));
  // After a short or failed read, the other calls continue the read, or report the error.
  if (got < 0 || first + static_cast<uint64_t>(got) < pieces.back().end) {
    for (const Piece& piece : pieces) MOEC_TRY(read_blocks_to(piece.begin, piece.end, piece.to));
    return {};
  }
  for (size_t i = 1; i < pieces.size(); ++i) {
    const Piece &before = pieces[i - 1], &piece = pieces[i];
    const uint64_t block = piece.begin / kBlockBytes * kBlockBytes;
    if (block >= blocks_end(before.end)) continue;
    const std::byte* shared = before.to + (block - before.begin / kBlockBytes * kBlockBytes);
    std::memcpy(piece.to, shared, kBlockBytes);
  }
  return {};
}

Status PayloadFile::read(uint64_t offset, std::byte* to, size_t bytes) const {
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_, to, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_failure("weights.read", "cannot read", path_);
    // The range lies in the file as opened, so an early end means that the file was truncated.
    if (got == 0)
      return changed(path_, fmt::format("the file ends at or before byte {}, but had {} bytes",
                                        offset, size()));
    to += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
  return {};
}

bool PayloadFile::is_cached(uint64_t offset, size_t bytes) const {
  // mincore() requires an address at the start of a page.
  const uint64_t begin = offset / kBlockBytes * kBlockBytes;
  const uint64_t end = std::min(offset + bytes, size());
  std::array<unsigned char, kBounceBytes / kBlockBytes> held{};
  const size_t pages = (end - begin + kBlockBytes - 1) / kBlockBytes;
  if (!may_ask_ || !mapping_ || end <= begin || pages > held.size()) return false;
  if (::mincore(mapping_->pages + begin, end - begin, held.data()) != 0) return false;
  return std::all_of(held.begin(), held.begin() + pages, [](auto page) { return page & 1; });
}

// Ignores failures and the end of the file: the caller reads the rest with read(), which reports
// them.
size_t PayloadFile::read_blocks(uint64_t offset, size_t bytes, std::byte* to) const {
  const size_t lead = lead_of(offset);
  const size_t blocks = (lead + bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  const ssize_t got = ::pread(direct_, to - lead, blocks, static_cast<off_t>(offset - lead));
  return got <= static_cast<ssize_t>(lead) ? 0 : std::min(bytes, static_cast<size_t>(got) - lead);
}

Result<const std::byte*> PayloadFile::lend(uint64_t offset, size_t bytes, std::byte* bounce) const {
  std::byte* to = bounce + lead_of(offset);
  const bool is_direct = descriptor_for(offset, bytes) == direct_;
  const size_t got = is_direct ? read_blocks(offset, bytes, to) : 0;
  MOEC_TRY(read(offset + got, to + got, bytes - got));
  return to;
}

Status PayloadFile::read_blocks_to(uint64_t begin, uint64_t end, std::byte* to) const {
  to += lead_of(begin);
  while (begin < end) {
    const auto bytes = static_cast<size_t>(end - begin);
    const bool is_direct = descriptor_for(begin, bytes) == direct_;
    const size_t got = is_direct ? read_blocks(begin, bytes, to) : 0;
    // Direct I/O is not used or made no progress. read() uses the page cache and reports errors.
    if (got == 0) return read(begin, to, bytes);
    begin += got;
    to += got;
  }
  return {};
}

Status PayloadFile::read_direct(uint64_t offset, std::byte* to, size_t bytes,
                                std::byte* bounce) const {
  while (bytes > 0 && direct_ >= 0) {
    size_t got = std::min(bytes, kLentBytes);
    if (is_cached(offset, got)) {
      MOEC_TRY(read(offset, to, got));
    } else {
      const std::byte* from = bounce + lead_of(offset);
      got = read_blocks(offset, got, bounce + lead_of(offset));
      std::memcpy(to, from, got);
    }
    if (got == 0) break;
    to += got;
    offset += got;
    bytes -= got;
  }
  return read(offset, to, bytes);
}

}  // namespace moec
