#include "backends/files/append_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/files.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

class AppendFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    std::ofstream(path()) << "first\n";
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path() const { return folder_ + "/journal"; }

  std::string folder_;
};

std::string code_of(const Status& status) { return status ? "" : status.error().front().code; }

TEST_F(AppendFileTest, AppendsWholeRecords) {
  auto file = AppendFile::open(path()).value();
  EXPECT_TRUE(file.append("second\n"));
  EXPECT_EQ(read_file(path()), "first\nsecond\n");
  EXPECT_TRUE(file.append("third\n"));
  EXPECT_EQ(read_file(path()), "first\nsecond\nthird\n");
  EXPECT_TRUE(file.check_present());
}

TEST_F(AppendFileTest, RejectsAMissingFile) {
  fs::remove(path());
  auto file = AppendFile::open(path());
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().front().code, "emit.folder_gone");
}

TEST_F(AppendFileTest, RollsBackAPartialRecord) {
  auto file = AppendFile::open(path()).value();
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{10, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  const Status status = file.append("longer than that\n");
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(code_of(status), "emit.no_space");
  EXPECT_EQ(read_file(path()), "first\n");
}

TEST_F(AppendFileTest, DetectsARemovedOrReplacedFile) {
  auto file = AppendFile::open(path()).value();
  fs::rename(folder_, folder_ + ".away");
  EXPECT_EQ(code_of(file.check_present()), "emit.folder_gone");
  fs::create_directories(folder_);
  std::ofstream(path()) << "first\n";
  EXPECT_EQ(code_of(file.check_present()), "emit.folder_gone");
  fs::remove_all(folder_ + ".away");
}

}  // namespace
}  // namespace moec
