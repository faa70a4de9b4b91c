// Exports in shares (--part), and the export that joins them (--join).
#include <gmock/gmock.h>

#include <atomic>

#include "backends/output/folder_lock.h"
#include "backends/output/part_folders.h"
#include "backends/output/part_journals.h"
#include "ir/base/refusals.h"
#include "tests/files.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/export/testing.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int64_t kShares = 3;

ExportOptions divided_options(const std::string& out, const std::string& target = "onnx") {
  ExportOptions options = export_options_of(checkpoint_of("mixtral_a"), target, out);
  if (target == "ane") {
    // A package per MoE layer that contains several shards.
    options.compile.build.experts_per_shard = 1;
    options.compile.build.host_routing = true;
  }
  return options;
}

ExportOptions share_of(ExportOptions options, int64_t index, int64_t count = kShares) {
  options.output.share = {index, count};
  return options;
}

ExportOptions join_of(ExportOptions options) {
  options.output.join = true;
  return options;
}

std::string export_error(const Result<ExportSummary>& result) {
  return result ? "no error" : render(result.error());
}

void export_all_shares(const ExportOptions& options, int64_t count = kShares) {
  for (int64_t i = 0; i < count; ++i) {
    const auto share = export_model(share_of(options, i, count));
    ASSERT_TRUE(share) << export_error(share);
  }
}

class SharesOfTarget : public testing::TestWithParam<std::tuple<const char*, int64_t>> {};

TEST_P(SharesOfTarget, JoinToTheUndividedBytes) {
  const auto& [target, count] = GetParam();
  const std::string whole = fresh_folder("whole"), out = fresh_folder("out");
  ASSERT_TRUE(export_model(divided_options(whole, target)));
  export_all_shares(divided_options(out, target), count);
  EXPECT_FALSE(fs::exists(out + "/manifest.json"));
  const auto joined = export_model(join_of(divided_options(out, target)));
  ASSERT_TRUE(joined) << export_error(joined);
  // Two tables, and every shard.
  EXPECT_EQ(joined->parts_kept, joined->manifest.shards.size() + 2);
  EXPECT_EQ(joined->bytes_read, 0u);
  EXPECT_EQ(all_bytes(out), all_bytes(whole));
}

INSTANTIATE_TEST_SUITE_P(Shares, SharesOfTarget,
                         testing::Values(std::tuple("onnx", 1), std::tuple("onnx", kShares),
                                         std::tuple("onnx", 100), std::tuple("ane", kShares),
                                         std::tuple("litertlm", 100)));

class Shares : public testing::Test {
 protected:
  void SetUp() override {
    out_ = fresh_folder("out");
    export_all_shares(divided_options(out_));
  }

  // Expects the bytes of an undivided export.
  size_t join() {
    const auto joined = export_model(join_of(divided_options(out_)));
    EXPECT_TRUE(joined) << export_error(joined);
    const std::string whole = fresh_folder("whole");
    EXPECT_TRUE(export_model(divided_options(whole)));
    EXPECT_EQ(all_bytes(out_), all_bytes(whole));
    return joined ? joined->parts_kept : 0;
  }
  size_t parts_of(int64_t share) const {
    return read_journal(part_folder(out_, share)).value().parts.size();
  }

  std::string out_;
};

TEST_F(Shares, ContainEachShardOnce) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < kShares; ++i) {
    const JournalText text = read_journal(part_folder(out_, i)).value();
    for (const JournalPart& part : text.parts) names.push_back(part.name);
  }
  const size_t parts = names.size();
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
  EXPECT_EQ(join(), parts);
}

TEST_F(Shares, AreExportedByTheJoin) {
  const size_t found = parts_of(0) + parts_of(2);
  fs::remove_all(part_folder(out_, 1));
  EXPECT_EQ(join(), found);
}

TEST_F(Shares, AreRepairedByTheJoin) {
  const size_t found = parts_of(0) + parts_of(1) + parts_of(2);
  const std::string file = part_folder(out_, 0) + "/embed.bin";
  std::string bytes = read_file(file);
  bytes[0] ^= 1;
  write_file(file, bytes);
  EXPECT_EQ(join(), found - 1);
}

TEST_F(Shares, ResumeWithOtherCounts) {
  const auto again = export_model(share_of(divided_options(out_), 1, 2));
  ASSERT_TRUE(again) << export_error(again);
  EXPECT_GT(again->parts_kept, 0u);
  join();
}

TEST_F(Shares, AreJoinedByAResumedJoin) {
  const auto stopped = [&] {
    ExportOptions options = join_of(divided_options(out_));
    return export_until(options, 4);
  }();
  ASSERT_THAT(export_error(stopped), HasSubstr("export.interrupted"));
  EXPECT_FALSE(fs::exists(out_ + "/manifest.json"));
  join();
}

TEST_F(Shares, RejectJoinsWithOtherOptions) {
  ExportOptions other = join_of(divided_options(out_));
  other.compile.build.tokens = {1};
  const auto before = all_bytes(out_);
  EXPECT_THAT(export_error(export_model(other)), HasSubstr("export.differs"));
  EXPECT_EQ(all_bytes(out_), before);
}

TEST_F(Shares, RequireTheJoinFlag) {
  EXPECT_THAT(export_error(export_model(divided_options(out_))), HasSubstr("export.not_joined"));
}

TEST_F(Shares, AreDiscardedByForce) {
  write_file(out_ + "/.parts/1/notes.txt", "mine");
  ExportOptions options = divided_options(out_);
  options.output.force = true;
  const auto replaced = export_model(options);
  ASSERT_TRUE(replaced) << export_error(replaced);
  EXPECT_EQ(replaced->parts_kept, 0u);
  EXPECT_FALSE(fs::exists(out_ + "/.parts/0"));
  EXPECT_EQ(read_file(out_ + "/.parts/1/notes.txt"), "mine");
}

TEST_F(Shares, RejectFinishedFolders) {
  join();
  EXPECT_THAT(export_error(export_model(share_of(divided_options(out_), 0))),
              HasSubstr("export.out_not_empty"));
}

TEST_F(Shares, ExcludeExportsOfTheFolder) {
  {
    const auto running = FolderLock::take(out_, LockKind::shared).value();
    EXPECT_THAT(export_error(export_model(join_of(divided_options(out_)))),
                HasSubstr("export.locked"));
    // Another share may run at the same time, but not the same one.
    EXPECT_TRUE(export_model(share_of(divided_options(out_), 1)));
    const auto same = FolderLock::take(part_folder(out_, 1)).value();
    EXPECT_THAT(export_error(export_model(share_of(divided_options(out_), 1))),
                HasSubstr("export.locked"));
  }
  const auto joining = FolderLock::take(out_).value();
  EXPECT_THAT(export_error(export_model(share_of(divided_options(out_), 1))),
              HasSubstr("export.locked"));
}

// Threads that take and release shared locks never find the folder locked.
TEST(SharedLock, IsAvailableWhileOthersEnd) {
  const std::string folder = fresh_folder("lock");
  std::atomic<int> refused = 0;
  ThreadGroup threads;
  for (int i = 0; i < 4; ++i)
    ASSERT_TRUE(threads.start([&] {
      for (int n = 0; n < 200; ++n)
        if (!FolderLock::take(folder, LockKind::shared)) ++refused;
    }));
  threads.join();
  EXPECT_EQ(refused, 0);
}

TEST(SharedLock, KeepsTheFileForOtherHolders) {
  const std::string folder = fresh_folder("lock");
  {
    const auto first = FolderLock::take(folder, LockKind::shared).value();
    { const auto second = FolderLock::take(folder, LockKind::shared).value(); }
    EXPECT_TRUE(fs::exists(folder + "/" + kLockFile));
    EXPECT_FALSE(FolderLock::take(folder));
  }
  EXPECT_FALSE(fs::exists(folder + "/" + kLockFile));
}

TEST(ShareFlags, RequireOneTargetAndNumbers) {
  const std::string source = checkpoint_of("mixtral_a"), out = fresh_folder("out");
  for (const char* part : {"3/3", "-1/3", "1", "a/b", "0/0", "1/", "/2"})
    EXPECT_THAT(run_command({"export", source, "--out", out, "--part", part}).err,
                HasSubstr("[export.flags]"))
        << part;
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--part", "0/2"}, std::vector<std::string>{"--join"}}) {
    std::vector<std::string> words = {"export", source, "--out", out, "--target", "onnx,ane"};
    words.insert(words.end(), flags.begin(), flags.end());
    EXPECT_THAT(run_command(words).err, HasSubstr("apply to a single target"));
    words.back() = flags.back();
    words[5] = "gguf";
    EXPECT_THAT(run_command(words).err, HasSubstr("has no effect for target gguf"));
  }
}

}  // namespace
}  // namespace moec
