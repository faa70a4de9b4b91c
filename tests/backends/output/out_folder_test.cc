#include "backends/output/out_folder.h"

#include <gmock/gmock.h>

#include "backends/files/digest.h"
#include "backends/manifest/file_names.h"
#include "backends/output/folder_lock.h"
#include "backends/output/journal_text.h"
#include "tests/files.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

constexpr std::array<std::string_view, 1> kPackages = {".mlpackage"};

class OutFolder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              (std::string("out_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void add(const std::string& name, const std::string& bytes = "x") const {
    fs::create_directories((folder_ / name).parent_path());
    write_file(folder_ / name, bytes);
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_))
      if (!entry.is_directory()) names.push_back(fs::relative(entry.path(), folder_).string());
    std::sort(names.begin(), names.end());
    return names;
  }
  // Returns the cause, or "none" if no file is in the way.
  std::string in_the_way(const OutFiles& writes, const OutFiles& own = {}) const {
    const Status status = check_none_in_the_way(folder_.string(), writes, own, kPackages);
    if (status) return "none";
    EXPECT_EQ(status.error().front().code, "export.foreign_file");
    return status.error().front().cause;
  }

  fs::path folder_;
};

TEST_F(OutFolder, CountsLinksAsFiles) {
  fs::create_directories(folder_ / "attn");
  add(kLockFile);
  EXPECT_FALSE(holds_files(folder_.string()).value());
  fs::create_directory_symlink("..", folder_ / "moe");
  EXPECT_TRUE(holds_files(folder_.string()).value());
}

TEST_F(OutFolder, NamesForeignFilesInTheWay) {
  const OutFiles writes = {"attn/L00.data", "embed.bin"};
  add("attn/00_mine.onnx");
  add("attn/0photos.data/pic.jpg");
  EXPECT_EQ(in_the_way(writes), "none");
  add("embed.bin");
  EXPECT_THAT(in_the_way(writes), HasSubstr("embed.bin"));
  EXPECT_EQ(in_the_way(writes, {"embed.bin"}), "none");
  add("attn/L00.data.part");
  EXPECT_THAT(in_the_way(writes, {"embed.bin"}), HasSubstr(": attn/L00.data.part"));
}

TEST_F(OutFolder, NamesObstructingLinksAndFolders) {
  fs::create_directory_symlink("..", folder_ / "attn");
  fs::create_directories(folder_ / "embed.bin");
  const OutFiles writes = {"attn/L00.data", "embed.bin"};
  EXPECT_THAT(in_the_way(writes, writes), HasSubstr(": attn, embed.bin"));
}

TEST_F(OutFolder, RejectsForeignFilesInPackages) {
  const OutFiles writes = {"moe/L00.mlpackage/Manifest.json"};
  add("moe/L00.mlpackage/Manifest.json");
  add("moe/L00.mlpackage/notes/mine.txt");
  add("moe/L00.mlpackage.old/mine.txt");
  EXPECT_THAT(in_the_way(writes, writes),
              HasSubstr(": moe/L00.mlpackage/notes/mine.txt, moe/L00.mlpackage.old/mine.txt"));
}

TEST_F(OutFolder, ShortensLongFileLists) {
  OutFiles writes;
  for (int i = 0; i < 9; ++i) {
    writes.insert(std::to_string(i));
    add(std::to_string(i));
  }
  EXPECT_THAT(in_the_way(writes), HasSubstr(": 0, 1, 2, 3, 4 and 4 more"));
}

TEST_F(OutFolder, KeepsForeignJournals) {
  add(kJournalFile, "a diary");
  EXPECT_THAT(files_of_exports(folder_.string()), IsEmpty());
  EXPECT_THAT(in_the_way({}), HasSubstr(kJournalFile));
}

TEST_F(OutFolder, RemovesOnlyOwnFiles) {
  for (const char* name :
       {"manifest.json", "attn/L00.data", "attn/L00.data.part", "attn/00_mine.onnx",
        "moe/L00.mlpackage.part/Data/weight.bin.part", "moe/L01.data", "layers/3rd.onnx"})
    add(name);
  const OutFiles own = {"manifest.json", "attn/L00.data", "moe/L00.mlpackage/Data/weight.bin",
                        "moe/L01.data", kJournalFile};
  add(kJournalFile);
  ASSERT_TRUE(remove_files(folder_.string(), own, {"moe/L01.data"}));
  EXPECT_THAT(files(),
              ElementsAre("attn/00_mine.onnx", kJournalFile, "layers/3rd.onnx", "moe/L01.data"));
  EXPECT_FALSE(fs::exists(folder_ / "moe/L00.mlpackage.part"));
}

TEST_F(OutFolder, RemovesLinksWithoutFollowingThem) {
  add("victim/L00.data");
  fs::create_directory_symlink("victim", folder_ / "attn");
  ASSERT_TRUE(remove_files(folder_.string(), {"attn/L00.data"}, {}));
  EXPECT_TRUE(fs::exists(folder_ / "victim/L00.data"));
}

// Reads file names even from manifests of other schema versions.
TEST_F(OutFolder, ReadsFileNamesFromTheManifest) {
  add("manifest.json",
      R"({"schema_version": 1, "tool": {"name": "moec"}, "parts": [
          {"path": "attn/L00.data", "bytes": 1, "digest": "00ff"},
          {"path": "../other", "bytes": 1, "digest": ""}, {"path": "not a file"}]})");
  EXPECT_THAT(files_of_exports(folder_.string()),
              ElementsAre(Pair("attn/L00.data", "00ff"), Pair("manifest.bin", ""),
                          Pair("manifest.json", "")));
}

TEST_F(OutFolder, IgnoresManifestsOfOtherPrograms) {
  for (const char* text :
       {R"({"name": "app", "icons": [{"path": "a.png", "bytes": 1, "digest": ""}]})", "{", ""}) {
    add("manifest.json", text);
    EXPECT_THAT(files_of_exports(folder_.string()), IsEmpty()) << text;
  }
}

// The first line is ignored, so an export with a damaged journal can be replaced.
TEST_F(OutFolder, ReadsFileNamesFromTheJournal) {
  JournalPart part{"embed.bin", {}};
  part.emitted.data.push_back({"embed.bin", 1, "00ff", ""});
  add(kJournalFile, "torn\n" + journal_line(std::set<std::string>{"attn/L00.data", "/etc/passwd"}) +
                        journal_line(part));
  EXPECT_THAT(
      files_of_exports(folder_.string()),
      ElementsAre(Pair("attn/L00.data", ""), Pair("embed.bin", "00ff"), Pair(kJournalFile, "")));
}

TEST_F(OutFolder, ReplacesOnlyUnchangedFiles) {
  add("a", "one");
  const OwnFiles own = {{"a", digest_text("one")}, {"b", ""}, {"gone", "00ff"}};
  add("b", "whatever");
  EXPECT_TRUE(check_replaceable(folder_.string(), own));
  add("a", "two");
  expect_error(check_replaceable(folder_.string(), own), "output.changed", "has changed");
  fs::remove(folder_ / "a");
  fs::create_symlink("b", folder_ / "a");
  expect_error(check_replaceable(folder_.string(), own), "output.changed", "has changed");
}

}  // namespace
}  // namespace moec
