#include "backends/files/folder.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/files.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

// `out` and a sibling folder `victim`, which no operation in `out` may change.
class FolderTest : public testing::Test {
 protected:
  void SetUp() override {
    base_ =
        fs::path(testing::TempDir()) /
        (std::string("folder_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(base_);
    fs::create_directories(base_ / "out");
    fs::create_directories(base_ / "victim");
    write_file(base_ / "victim/file", "precious");
  }
  void TearDown() override {
    EXPECT_EQ(read_file(base_ / "victim/file"), "precious");
    EXPECT_EQ(std::distance(fs::directory_iterator(base_ / "victim"), {}), 1);
    fs::remove_all(base_);
  }
  Folder open() const { return Folder::open((base_ / "out").string()).value(); }

  fs::path base_;
};

template <class T>
std::string code_of(const Result<T>& result) {
  return result ? "none" : result.error().front().code;
}

TEST_F(FolderTest, FollowsLinksOnlyInUserPaths) {
  fs::create_directory_symlink("out", base_ / "alias");
  fs::create_directory_symlink("../victim", base_ / "out/attn");
  const auto alias = Folder::open((base_ / "alias").string());
  ASSERT_TRUE(alias) << render(alias.error());
  for (const char* path : {"attn", "attn/below"}) {
    const auto below = alias->create_below(path);
    ASSERT_FALSE(below);
    EXPECT_EQ(code_of(below), "emit.bad_folder");
    EXPECT_THAT(below.error().front().cause, HasSubstr("attn is a link"));
  }
}

TEST_F(FolderTest, RejectsPathsOutsideTheFolder) {
  const Folder out = open();
  for (const char* path : {"..", "../victim", "a/../../victim", ".", "/", "a//b"}) {
    EXPECT_FALSE(is_below(path)) << path;
    EXPECT_NE(code_of(out.create_below(path)), "none") << path;
  }
  EXPECT_TRUE(is_below("a/b..c/.d"));
  EXPECT_FALSE(is_below(""));
  EXPECT_FALSE(is_below("a/"));
}

TEST_F(FolderTest, ReplacesLinksWithoutWritingThroughThem) {
  fs::create_hard_link(base_ / "victim/file", base_ / "out/hard");
  fs::create_symlink("../victim/file", base_ / "out/soft");
  ASSERT_EQ(::mkfifo((base_ / "out/pipe").c_str(), 0600), 0);
  for (const char* name : {"hard", "soft", "pipe"}) {
    const auto made = open().create_file(name);
    ASSERT_TRUE(made) << name << render(made.error());
    EXPECT_EQ(::write(*made, "x", 1), 1);
    ::close(*made);
    EXPECT_EQ(read_file(base_ / "out" / name), "x");
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(base_ / "out" / name)));
  }
}

TEST_F(FolderTest, ReadsOnlyRegularFiles) {
  fs::create_symlink("../victim/file", base_ / "out/soft");
  ASSERT_EQ(::mkfifo((base_ / "out/pipe").c_str(), 0600), 0);
  write_file(base_ / "out/plain", "text");
  EXPECT_EQ(code_of(open().open_file("soft")), "file.open");
  EXPECT_EQ(code_of(open().open_file("pipe")), "file.not_regular");
  EXPECT_EQ(open().open_file("plain").value().read(0, 4).value(), "text");
}

TEST_F(FolderTest, RemovesLinksButNotTheirTargets) {
  fs::create_directories(base_ / "out/tree/deep");
  write_file(base_ / "out/tree/deep/file", "x");
  fs::create_directory_symlink("../../../victim", base_ / "out/tree/deep/link");
  fs::create_directory_symlink("../victim", base_ / "out/link");
  const Folder out = open();
  for (const char* name : {"tree", "link", "absent"}) {
    const Status removed = out.remove_all(name);
    EXPECT_TRUE(removed) << render(removed.error());
  }
  EXPECT_TRUE(fs::is_empty(base_ / "out"));
}

TEST_F(FolderTest, ListsLinksAsFiles) {
  fs::create_directory_symlink("../victim", base_ / "out/b");
  fs::create_directories(base_ / "out/a");
  write_file(base_ / "out/c", "");
  std::vector<std::string> names;
  const auto entries = open().entries();
  ASSERT_TRUE(entries) << render(entries.error());
  for (const FolderEntry& entry : *entries)
    names.push_back(entry.name + (entry.is_folder ? "/" : ""));
  EXPECT_THAT(names, ElementsAre("a/", "b", "c"));
}

TEST_F(FolderTest, CreatesLinksOnlyBelowTheFolder) {
  const std::string out = (base_ / "out").string();
  write_file(base_ / "out/file", "x");
  fs::create_directory_symlink("../victim", base_ / "out/moe");
  EXPECT_EQ(code_of(link_files({out, "file"}, {out, "moe/file2"})), "emit.bad_folder");
  EXPECT_TRUE(link_files({out, "file"}, {out, "new/file2"}).value());
  EXPECT_EQ(read_file(base_ / "out/new/file2"), "x");
}

}  // namespace
}  // namespace moec
