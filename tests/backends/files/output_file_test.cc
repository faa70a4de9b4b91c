#include "backends/files/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "backends/files/sync_tree.h"
#include "backends/files/write_error.h"
#include "tests/files.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class OutputFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_))
      names.push_back(entry.path().filename().string());
    return names;
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  OutputPath at(const std::string& name) const { return {folder_.string(), name}; }

  fs::path folder_;
};

TEST_F(OutputFileTest, AppearsCompleteUnderItsFinalName) {
  auto file = OutputFile::create(at("new/folder/a.bin"), 10);
  ASSERT_TRUE(file) << render(file.error());
  ASSERT_TRUE(file->write(text_bytes("abc")));
  ASSERT_TRUE(file->pad_to(8));
  ASSERT_TRUE(file->write(text_bytes("de")));
  EXPECT_FALSE(fs::exists(path("new/folder/a.bin")));
  ASSERT_TRUE(file->sync());
  EXPECT_FALSE(fs::exists(path("new/folder/a.bin")));
  ASSERT_TRUE(file->publish());
  EXPECT_EQ(read_file(path("new/folder/a.bin")), std::string("abc\0\0\0\0\0de", 10));
  EXPECT_EQ(file->bytes(), 10u);
}

// XXH3_128bits("") from the sanity test of the xxHash repository.
TEST_F(OutputFileTest, DigestsWith128BitXxh3) {
  auto file = OutputFile::create(at("a.bin"), 0).value();
  EXPECT_EQ(file.digest(), "99aa06d3014798d86001c324468d497f");
  auto one = OutputFile::create(at("b.bin"), 0).value();
  ASSERT_TRUE(file.write(text_bytes("some bytes")));
  ASSERT_TRUE(one.write(text_bytes("some ")));
  ASSERT_TRUE(one.write(text_bytes("bytes")));
  EXPECT_EQ(file.digest(), one.digest());
}

// SHA-256("abc") from FIPS 180.
TEST_F(OutputFileTest, ComputesSha256OnRequest) {
  auto file = write_synced(at("a.bin"), "abc", true).value();
  EXPECT_EQ(file.sha256(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(write_synced(at("b.bin"), "abc").value().sha256(), "");
}

TEST_F(OutputFileTest, SyncsTheTreeAfterPublishing) {
  auto file = OutputFile::create(at("a/b/c.bin"), 3).value();
  ASSERT_TRUE(file.write(text_bytes("abc")));
  ASSERT_TRUE(file.close());
  ASSERT_TRUE(file.publish());
  EXPECT_TRUE(sync_tree(path("a")));
  EXPECT_EQ(read_file(path("a/b/c.bin")), "abc");
  const Status absent = sync_tree(path("absent"));
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().front().code, "emit.folder_gone");
}

TEST_F(OutputFileTest, SyncsLinkedAndReportsMissingFolders) {
  fs::create_directory_symlink(folder_, path("link"));
  EXPECT_TRUE(sync_folder(path("link")));
  const Status absent = sync_folder(path("absent"));
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().front().code, "emit.folder_gone");
}

TEST_F(OutputFileTest, RemovesItsPartWhenDropped) {
  {
    auto open_one = OutputFile::create(at("a.bin"), 100);
    ASSERT_TRUE(open_one->write(text_bytes("abc")));
    auto synced_one = OutputFile::create(at("b.bin"), 0);
    ASSERT_TRUE(synced_one->sync());
    EXPECT_EQ(entries().size(), 2u);
  }
  EXPECT_THAT(entries(), testing::IsEmpty());
}

// Preallocation gives the file its expected size until sync() truncates it.
TEST_F(OutputFileTest, TruncatesToTheWrittenLength) {
  auto file = OutputFile::create(at("a.bin"), 100000).value();
  ASSERT_TRUE(file.write(text_bytes("abc")));
  ASSERT_TRUE(file.sync());
  ASSERT_TRUE(file.publish());
  EXPECT_EQ(read_file(path("a.bin")), "abc");
}

TEST_F(OutputFileTest, KeepsTheOldFileUntilPublished) {
  std::ofstream(path("a.bin")) << "old";
  {
    auto file = OutputFile::create(at("a.bin"), 0);
    ASSERT_TRUE(file->write(text_bytes("new")));
  }
  EXPECT_EQ(read_file(path("a.bin")), "old");
}

TEST_F(OutputFileTest, RejectsAFileAsParentFolder) {
  std::ofstream(path("plain")) << "x";
  auto file = OutputFile::create(at("plain/inside/a.bin"), 0);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().front().code, "emit.bad_folder");
  EXPECT_THAT(file.error().front().cause, HasSubstr("plain"));
}

// Root ignores permissions, so this test switches from root to nobody.
class AsOrdinaryUser {
 public:
  AsOrdinaryUser() : was_root_(geteuid() == 0) {
    constexpr uid_t kNobody = 65534;
    if (was_root_) {
      EXPECT_EQ(seteuid(kNobody), 0);
    }
  }
  ~AsOrdinaryUser() {
    if (was_root_) {
      EXPECT_EQ(seteuid(0), 0);
    }
  }

 private:
  bool was_root_;
};

TEST_F(OutputFileTest, ReportsAnUnwritableFolder) {
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  {
    AsOrdinaryUser nobody;
    auto file = OutputFile::create(at("a.bin"), 0);
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().front().code, "emit.no_permission");
    EXPECT_THAT(file.error().front().cause, HasSubstr(folder_.string()));
  }
  fs::permissions(folder_, fs::perms::owner_all);
}

TEST_F(OutputFileTest, BlamesEmfileOnDescriptors) {
  for (const int error : {EMFILE, ENFILE})
    EXPECT_EQ(write_error(error, "open", "a.bin").value().front().code, "emit.too_many_files");
}

// Simulates a full disk: no file may grow beyond `bytes` during its lifetime.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &old_);
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int) = nullptr;
};

TEST_F(OutputFileTest, ReportsAFullDisk) {
  Status status;
  {
    FileSizeLimit limit(100000);
    auto file = OutputFile::create(at("a.bin"), 0);
    ASSERT_TRUE(file) << render(file.error());
    ASSERT_TRUE(file->write(text_bytes(std::string(1 << 17, 'x'))));
    status = file->sync();
  }
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().front().code, "emit.no_space");
  EXPECT_THAT(status.error().front().cause, HasSubstr(path("a.bin")));
  EXPECT_EQ(status.error().front().place.file, path("a.bin"));
  EXPECT_THAT(entries(), testing::IsEmpty());
}

TEST_F(OutputFileTest, ReportsInsufficientSpaceBeforeWriting) {
  FileSizeLimit limit(100000);
  const auto file = OutputFile::create(at("a.bin"), 200000);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().front().code, "emit.no_space");
  EXPECT_THAT(entries(), testing::IsEmpty());
}

// A write of a large file fails in the background; a later call returns the error.
TEST_F(OutputFileTest, StopsLargeWritesOnFullDisks) {
  const std::string block(1 << 20, 'x');
  FileSizeLimit limit(5 << 20);
  auto file = OutputFile::create(at("a.bin"), 0);
  ASSERT_TRUE(file) << render(file.error());
  Status status;
  for (int i = 0; i < 64 && status; ++i) status = file->write(text_bytes(block));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().front().code, "emit.no_space");
  ASSERT_FALSE(file->sync());
  EXPECT_EQ(file->sync().error().front().code, "emit.no_space");
}

// These process ids exceed the Linux maximum, so no such process exists.
TEST_F(OutputFileTest, RemovesPartsOfKilledWriters) {
  const std::string own = "a.bin." + std::to_string(::getppid()) + ".part";
  for (const std::string& name :
       {std::string("a.bin.99999999.part"), own, std::string("a.bin.mine.part"),
        std::string("b.bin.99999999.part")})
    write_file(path(name), "left");
  ASSERT_TRUE(write_file(OutputPath::of_file(path("a.bin")), "whole"));
  EXPECT_THAT(entries(), testing::UnorderedElementsAre("a.bin", own, "a.bin.mine.part",
                                                       "b.bin.99999999.part"));
}

}  // namespace
}  // namespace moec
