// Large files: pieces, tails, and direct writes with their fallback to the page cache.
#include "backends/files/bulk_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "backends/files/digest.h"
#include "backends/files/output_file.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

constexpr size_t kPiece = BulkWriter::kPieceBytes;

// Bytes without a period, so a misplaced piece changes the content.
Bytes numbered(size_t count) {
  Bytes bytes(count);
  uint64_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(state >> 56);
  }
  return bytes;
}

Bytes read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  Bytes bytes(fs::file_size(path));
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

// An open file that the destructor removes.
class TempFile {
 public:
  explicit TempFile(const fs::path& folder)
      : path(folder / ("bulk_writer_" + std::to_string(::getpid()))),
        fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {}
  ~TempFile() {
    ::close(fd);
    fs::remove(path);
  }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;

  const fs::path path;
  const int fd;
};

// Writes in steps of `step` bytes and compares the bytes in the file and at the observer.
void expect_whole(const fs::path& folder, const Bytes& bytes, size_t step) {
  const TempFile file(folder);
  ASSERT_GE(file.fd, 0) << folder;
  Bytes observed;
  uint64_t counted = 0;
  BulkWriter writer(file.fd,
                    {[&](auto seen) { observed.insert(observed.end(), seen.begin(), seen.end()); },
                     [&](auto seen) { counted += seen.size(); }});
  for (size_t at = 0; at < bytes.size(); at += step)
    ASSERT_EQ(writer.append(std::span(bytes).subspan(at, std::min(step, bytes.size() - at))), 0);
  ASSERT_EQ(writer.finish(), 0);
  EXPECT_EQ(read_bytes(file.path) == bytes, true) << bytes.size() << " in " << folder;
  EXPECT_EQ(observed == bytes, true) << bytes.size() << " in " << folder;
  EXPECT_EQ(counted, bytes.size());
}

TEST(BulkWriter, WritesAllBytesForAnySize) {
  for (size_t size : {size_t{0}, size_t{1}, size_t{4096}, size_t{4097}, kPiece - 1, kPiece,
                      kPiece + 1, kPiece + 4096, 2 * kPiece + 5000, 9 * kPiece + 123})
    expect_whole(testing::TempDir(), numbered(size), size_t{1} << 20);
}

TEST(BulkWriter, AcceptsUnalignedAppends) {
  const Bytes bytes = numbered(3 * kPiece + 77);
  for (size_t step : {size_t{777777}, kPiece + 1, bytes.size()})
    expect_whole(testing::TempDir(), bytes, step);
}

// tmpfs accepts direct writes only with some kernels.
TEST(BulkWriter, WritesToTmpfs) {
  if (!fs::is_directory("/dev/shm")) GTEST_SKIP() << "this machine has no /dev/shm";
  expect_whole("/dev/shm", numbered(3 * kPiece + 77), 100000);
}

TEST(BulkWriter, ReturnsTheFirstErrorAgain) {
  const int read_only = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  BulkWriter writer(read_only, {});
  const Bytes bytes = numbered(kPiece);
  int error = 0;
  for (size_t i = 0; i < 2 * BulkWriter::kPieces && error == 0; ++i) error = writer.append(bytes);
  EXPECT_EQ(error, EBADF);
  EXPECT_EQ(writer.append(bytes), EBADF);
  EXPECT_EQ(writer.finish(), EBADF);
  ::close(read_only);
}

// Direct writes fail at an unaligned position. The file must then contain both the earlier and the
// later bytes.
TEST(BulkWriter, FallsBackToThePageCache) {
  const TempFile file(testing::TempDir());
  ASSERT_EQ(::write(file.fd, "odd", 3), 3);
  const Bytes bytes = numbered(2 * kPiece + 10);
  BulkWriter writer(file.fd, {});
  ASSERT_EQ(writer.append(bytes), 0);
  ASSERT_EQ(writer.finish(), 0);
  Bytes found = read_bytes(file.path);
  ASSERT_EQ(found.size(), bytes.size() + 3);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), found.begin() + 3));
}

TEST(BulkWriter, JoinsItsThreadsWhenDestroyed) {
  const TempFile file(testing::TempDir());
  size_t observed = 0;
  {
    BulkWriter writer(file.fd, {[&](auto seen) { observed += seen.size(); }});
    ASSERT_EQ(writer.append(numbered(3 * kPiece + 1)), 0);
  }
  EXPECT_EQ(observed, 3 * kPiece);
}

TEST(BulkWriter, DigestsLargeFilesExactly) {
  const fs::path path = fs::path(testing::TempDir()) / ("digest_" + std::to_string(::getpid()));
  auto file = OutputFile::create(OutputPath::of_file(path.string()), 0).value();
  const Bytes bytes = numbered(2 * kPiece);
  ASSERT_TRUE(file.write(bytes));
  ASSERT_TRUE(file.pad_to(5 * kPiece + 3));
  ASSERT_TRUE(file.sync());
  ASSERT_TRUE(file.publish());
  EXPECT_EQ(fs::file_size(path), 5 * kPiece + 3);
  EXPECT_EQ(digest_file(path.string()).value(), file.digest());
  fs::remove(path);
}

}  // namespace
}  // namespace moec
