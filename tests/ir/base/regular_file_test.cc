#include "ir/base/regular_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/models/expect_error.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

std::string fresh(const std::string& name) {
  std::string path = testing::TempDir() + "/regular_file_" + name;
  fs::remove_all(path);
  return path;
}

std::string write(const std::string& name, const std::string& text) {
  std::string path = fresh(name);
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(RegularFile, ReadsRanges) {
  auto file = RegularFile::open(write("ranges", "hello world"));
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->size(), 11u);
  EXPECT_EQ(file->read(6, 5).value(), "world");
  EXPECT_EQ(file->read(11, 0).value(), "");
}

TEST(RegularFile, RejectsRangesPastTheEnd) {
  auto file = RegularFile::open(write("short", "hello"));
  ASSERT_TRUE(file.has_value());
  expect_error(file->read(0, 6), "file.truncated", "the file has 5");
  expect_error(file->read(UINT64_MAX, UINT64_MAX), "file.truncated", "");
  expect_error(file->read(3, UINT64_MAX), "file.truncated", "");
}

TEST(RegularFile, FollowsLinksToFiles) {
  std::string target = write("target", "x"), link = fresh("link");
  fs::create_symlink(target, link);
  EXPECT_TRUE(RegularFile::open(link).has_value());
}

TEST(RegularFile, RejectsAbsentFilesAndNonFiles) {
  expect_error(RegularFile::open(fresh("absent")), "file.open", "No such file");
  expect_error(RegularFile::open(testing::TempDir()), "file.not_regular", "not a regular file");
  expect_error(RegularFile::open("/dev/zero"), "file.not_regular", "");
  std::string pipe = fresh("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_error(RegularFile::open(pipe), "file.not_regular", "");
  std::string link = fresh("link_to_device");
  fs::create_symlink("/dev/zero", link);
  expect_error(RegularFile::open(link), "file.not_regular", "");
}

TEST(RegularFile, UsesOneCodeForUserFiles) {
  EXPECT_EQ(read_user_text(write("text", "hello"), "x.file").value(), "hello");
  expect_error(read_user_text(write("empty", ""), "x.file"), "x.file", "empty");
  expect_error(read_user_text(fresh("absent"), "x.file"), "x.file", "No such file");
  expect_error(read_user_text(testing::TempDir(), "x.file"), "x.file", "not a regular file");
  const std::string pipe = fresh("users_pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_error(read_user_text(pipe, "x.file"), "x.file", "not a regular file");
  const std::string large = write("large", "x");
  fs::resize_file(large, kMaxUserTextBytes + 1);  // a hole, which allocates no blocks
  expect_error(read_user_text(large, "x.file"), "x.file", "the maximum is");
}

TEST(RegularFile, RejectsAChangedSize) {
  std::string path = write("changing", "hello");
  auto file = RegularFile::open(path);
  ASSERT_TRUE(file.has_value());
  EXPECT_TRUE(file->check_unchanged().has_value());
  fs::resize_file(path, 3);
  expect_error(file->check_unchanged(), "file.changed",
               "had 5 bytes when it was opened and has 3 now");
  expect_error(file->read(0, 5), "file.read", "was truncated");
}

TEST(ReadTextFile, RejectsFilesOverItsLimit) {
  std::string path = write("text", "hello");
  EXPECT_EQ(read_text_file(path, 5).value(), "hello");
  expect_error(read_text_file(path, 4), "file.too_big", "5 bytes, the maximum is 4");
}

}  // namespace
}  // namespace moec
