// Interrupted exports resume and write the same bytes as an uninterrupted export.
#include <gmock/gmock.h>

#include "backends/output/folder_lock.h"
#include "backends/output/journal.h"
#include "tests/files.h"
#include "tests/frontends/cli/checkpoint_copy.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/export/testing.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kCase = "mixtral_a";

ExportOptions options_of(const std::string& out, const std::string& target = "onnx", int jobs = 1) {
  return export_options_of(checkpoint_of(kCase), target, out, jobs);
}

std::string error_of(const Result<ExportSummary>& result) {
  return result ? "no error" : render(result.error());
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    names.push_back(fs::relative(entry.path(), folder).string());
  return names;
}

struct Setup {
  const char* name;
  const char* target;
  int jobs;
  int64_t experts_per_shard = 0;  // 0: routers are not separate shards
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const Setup& setup, std::ostream* out) { *out << setup.name; }

class ResumeAnywhere : public testing::TestWithParam<Setup> {};

TEST_P(ResumeAnywhere, WritesTheUninterruptedBytes) {
  const std::string whole = fresh_folder("whole"), out = fresh_folder("out");
  ExportOptions options = options_of(whole, GetParam().target);
  options.compile.build.experts_per_shard = GetParam().experts_per_shard;
  options.compile.build.host_routing = GetParam().experts_per_shard > 0;
  const size_t calls = count_polls(options);
  const auto expected = all_bytes(whole);
  options.output.folder = out;
  options.resources.jobs = GetParam().jobs;
  size_t kept = 0;
  for (size_t n = 1; n <= calls; n += (calls + 5) / 6) {
    fs::remove_all(out);
    const auto stopped = export_until(options, n);
    ASSERT_THAT(error_of(stopped),
                AllOf(HasSubstr("export.interrupted"), HasSubstr("export.unfinished")));
    EXPECT_FALSE(fs::exists(out + "/manifest.json"));
    EXPECT_THAT(names_in(out), Not(testing::Contains(testing::EndsWith(".part"))));
    const auto resumed = export_model(options);
    ASSERT_TRUE(resumed) << error_of(resumed);
    kept += resumed->parts_kept;
    EXPECT_EQ(all_bytes(out), expected) << "stopped at call " << n << " of " << calls;
  }
  EXPECT_GT(kept, 0u);
}

INSTANTIATE_TEST_SUITE_P(Resume, ResumeAnywhere,
                         testing::Values(Setup{"onnx_1", "onnx", 1}, Setup{"onnx_2", "onnx", 2},
                                         Setup{"onnx_8", "onnx", 8}, Setup{"ane_1", "ane", 1},
                                         Setup{"ane_2", "ane", 2}, Setup{"ane_8", "ane", 8},
                                         Setup{"ane_experts_1", "ane", 1, 1},
                                         Setup{"ane_experts_8", "ane", 8, 1},
                                         Setup{"litertlm_1", "litertlm", 1},
                                         Setup{"litertlm_2", "litertlm", 2}),
                         [](const auto& info) { return std::string(info.param.name); });

// An export stopped before its last tile, and an uninterrupted export for comparison.
class Resume : public testing::Test {
 protected:
  void SetUp() override {
    whole_ = fresh_folder("whole");
    out_ = fresh_folder("out");
    const size_t calls = count_polls(options_of(whole_));
    const auto stopped = export_until(options_of(out_), calls);
    ASSERT_THAT(error_of(stopped), HasSubstr("export.interrupted"));
  }

  // Resumes the export and returns the number of reused parts.
  size_t resume() {
    const auto resumed = export_model(options_of(out_));
    EXPECT_TRUE(resumed) << error_of(resumed);
    EXPECT_EQ(all_bytes(out_), all_bytes(whole_));
    return resumed ? resumed->parts_kept : 0;
  }
  std::string journal() const { return out_ + "/" + kJournalFile; }
  size_t complete_parts() const { return read_journal(out_).value().parts.size(); }

  std::string whole_, out_;
};

TEST_F(Resume, SkipsATornLastJournalLine) {
  const size_t parts = complete_parts();
  ASSERT_GT(parts, 3u);
  fs::resize_file(journal(), fs::file_size(journal()) - 5);
  EXPECT_EQ(resume(), parts - 1);
}

TEST_F(Resume, RewritesDamagedAndMissingFiles) {
  const size_t parts = complete_parts();
  std::string bytes = read_file(out_ + "/attn/L00.data");
  bytes[bytes.size() / 2] ^= 1;
  write_file(out_ + "/attn/L00.data", bytes);
  fs::remove(out_ + "/embed.bin");
  EXPECT_EQ(resume(), parts - 2);
}

TEST_F(Resume, RemovesLeftoversOfAKilledRun) {
  const size_t parts = complete_parts();
  for (const char* file :
       {"attn/L01.data.part", "embed.bin.part", "manifest.json.part", "export.journal.part"}) {
    fs::create_directories(fs::path(out_ + "/" + file).parent_path());
    write_file(out_ + "/" + file, "leftover");
  }
  EXPECT_EQ(resume(), parts);
}

TEST_F(Resume, RejectsOtherOptionsAndKeepsFiles) {
  ExportOptions options = options_of(out_);
  options.compile.build.tokens = {1};
  options.compile.passes.routing = RoutingForm::iterate;
  const auto before = all_bytes(out_);
  EXPECT_THAT(error_of(export_model(options)),
              AllOf(HasSubstr("export.differs"), HasSubstr("--tokens: it was 1,8, now it is 1"),
                    HasSubstr("--routing: it was rank, now it is iterate"), HasSubstr("--force")));
  EXPECT_EQ(all_bytes(out_), before);
}

TEST_F(Resume, AllowsOtherJobsAndMemory) {
  const size_t parts = complete_parts();
  ExportOptions options = options_of(out_, "onnx", 4);
  options.resources.memory_bytes *= 2;
  const auto resumed = export_model(options);
  ASSERT_TRUE(resumed) << error_of(resumed);
  EXPECT_EQ(resumed->parts_kept, parts);
  EXPECT_EQ(all_bytes(out_), all_bytes(whole_));
}

TEST_F(Resume, ForceStartsOver) {
  ExportOptions options = options_of(out_);
  options.compile.build.tokens = {1};
  options.output.force = true;
  const auto forced = export_model(options);
  ASSERT_TRUE(forced) << error_of(forced);
  EXPECT_EQ(forced->parts_kept, 0u);
  options.output.folder = whole_;
  ASSERT_TRUE(export_model(options));
  EXPECT_EQ(all_bytes(out_), all_bytes(whole_));
}

TEST_F(Resume, RequiresForceForAnUnreadableJournal) {
  write_file(journal(), "{}\n");
  EXPECT_THAT(error_of(export_model(options_of(out_))),
              AllOf(HasSubstr("export.journal"), HasSubstr("--force")));
  write_file(journal(), "");
  EXPECT_THAT(error_of(export_model(options_of(out_))), HasSubstr("export.journal"));
}

TEST_F(Resume, RejectsAFinishedExport) {
  resume();
  EXPECT_THAT(error_of(export_model(options_of(out_))), HasSubstr("export.out_not_empty"));
}

TEST(ResumeInputs, NameChangedFiles) {
  const CheckpointCopy copy(kCase);
  const std::string out = fresh_folder("out");
  const ExportOptions options = export_options_of(copy.folder(), "onnx", out);
  ASSERT_FALSE(export_until(options, 30));
  copy.write("config.json", copy.read("config.json") + "\n");
  const fs::path weights = copy.path("model.safetensors");
  fs::last_write_time(weights, fs::last_write_time(weights) + std::chrono::seconds(1));
  EXPECT_THAT(error_of(export_model(options)),
              AllOf(HasSubstr("export.differs"), HasSubstr("file config.json: it was"),
                    HasSubstr("file model.safetensors: it was"), Not(HasSubstr("option"))));
}

// Programs can restore the modification time: here bytes change, but the modification time does
// not.
TEST(ResumeInputs, DetectChangesWithRestoredTimes) {
  const CheckpointCopy copy(kCase);
  const std::string out = fresh_folder("out");
  const ExportOptions options = export_options_of(copy.folder(), "onnx", out);
  ASSERT_FALSE(export_until(options, 30));
  const fs::path weights = copy.path("model.safetensors");
  const auto time = fs::last_write_time(weights);
  std::fstream file(weights, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(-8, std::ios::end).write("changed!", 8);
  file.close();
  fs::last_write_time(weights, time);
  EXPECT_THAT(error_of(export_model(options)),
              AllOf(HasSubstr("export.differs"), HasSubstr("file model.safetensors: it was")));
}

TEST(ResumeInputs, AcceptSeededWeights) {
  const std::string out = fresh_folder("out"), whole = fresh_folder("whole");
  ExportOptions options = options_of(whole, "ane");
  options.source.weight_seed = 7;
  const size_t calls = count_polls(options);
  options.output.folder = out;
  ASSERT_FALSE(export_until(options, calls / 2));
  const auto resumed = export_model(options);
  ASSERT_TRUE(resumed) << error_of(resumed);
  EXPECT_GT(resumed->parts_kept, 0u);
  EXPECT_EQ(all_bytes(out), all_bytes(whole));
}

TEST(ExportLock, RejectsASecondExport) {
  const std::string out = fresh_folder("out");
  {
    auto lock = FolderLock::take(out);
    ASSERT_TRUE(lock);
    EXPECT_THAT(error_of(export_model(options_of(out))),
                AllOf(HasSubstr("export.locked"), HasSubstr(out)));
  }
  EXPECT_TRUE(fs::is_empty(out));
  const auto exported = export_model(options_of(out));
  EXPECT_TRUE(exported) << error_of(exported);
}

TEST(ExportLock, IgnoresLocksOfKilledExports) {
  const std::string out = fresh_folder("out");
  write_file(out + "/" + kLockFile, "");
  const auto exported = export_model(options_of(out));
  ASSERT_TRUE(exported) << error_of(exported);
  EXPECT_FALSE(fs::exists(out + "/" + kLockFile));
}

// Moves the output folder away between two tiles.
TEST(ExportFaults, NamesAVanishedFolder) {
  for (const int jobs : {1, 4}) {
    const std::string out = fresh_folder("out"), away = fresh_folder("away") + "/out";
    ExportOptions options = options_of(out, "onnx", jobs);
    auto calls = std::make_shared<std::atomic<int>>(0);
    options.callbacks.stop = [=] {
      if (++*calls == 20) fs::rename(out, away);
      return false;
    };
    // No part was reused, so the error must not contain a note about reuse.
    EXPECT_THAT(error_of(export_model(options)),
                AllOf(HasSubstr("emit.folder_gone"), Not(HasSubstr("export.unfinished"))));
    EXPECT_FALSE(fs::exists(out + "/manifest.json"));
  }
}

// A finished shard vanishes before the last one is finished.
TEST(ExportFaults, NamesAndRewritesAVanishedFile) {
  const std::string out = fresh_folder("out"), whole = fresh_folder("whole");
  const size_t last = count_polls(options_of(whole));
  ExportOptions options = options_of(out);
  auto calls = std::make_shared<std::atomic<size_t>>(0);
  options.callbacks.stop = [=] {
    if (++*calls == last) fs::remove(out + "/attn/L00.data");
    return false;
  };
  EXPECT_THAT(error_of(export_model(options)),
              AllOf(HasSubstr("emit.file_gone"), HasSubstr("attn/L00.data was written")));
  EXPECT_FALSE(fs::exists(out + "/manifest.json"));
  const auto resumed = export_model(options_of(out));
  ASSERT_TRUE(resumed) << error_of(resumed);
  EXPECT_EQ(all_bytes(out), all_bytes(whole));
}

}  // namespace
}  // namespace moec
