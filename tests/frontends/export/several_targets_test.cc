// Exports for several targets: each target equals a separate export, and the checkpoint is read
// once.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "backends/output/folder_lock.h"
#include "backends/output/journal.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/cli/read_json.h"
#include "tests/frontends/export/testing.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kCheckpoint = "mixtral_a";

// Options for ONNX in OUT/onnx and Core ML in OUT/ane, both in f16. With `groups`, both targets
// split the experts of a layer into groups, and the ONNX groups are smaller.
std::vector<ExportOptions> both_targets(const std::string& out, int jobs, bool groups = false) {
  std::vector<ExportOptions> targets;
  for (const char* target : {"onnx", "ane"}) {
    ExportOptions options =
        export_options_of(checkpoint_of(kCheckpoint), target, out + "/" + target, jobs);
    options.compile.build.dtype = DType::f16;
    options.resources.memory_bytes = uint64_t{512} << 20;  // enough for 8 jobs
    if (groups) {
      options.compile.passes.routing = RoutingForm::host;
      options.compile.build.host_routing = true;
      options.compile.cuts.experts_per_shard = targets.empty() ? 1 : 3;
    }
    targets.push_back(std::move(options));
  }
  return targets;
}

uint64_t bytes_read(const std::vector<ExportSummary>& summaries) {
  return std::accumulate(
      summaries.begin(), summaries.end(), uint64_t{0},
      [](uint64_t sum, const ExportSummary& summary) { return sum + summary.bytes_read; });
}

std::string error_of(const Result<std::vector<ExportSummary>>& result) {
  return result ? "no error" : render(result.error());
}

// Files and summaries of a separate export per target.
struct Alone {
  std::map<std::string, std::string> bytes;
  std::vector<ExportSummary> summaries;
};

Alone export_alone(bool groups) {
  const std::string out = fresh_folder("alone");
  Alone alone;
  for (const ExportOptions& options : both_targets(out, 1, groups))
    alone.summaries.push_back(export_model(options).value());
  alone.bytes = all_bytes(out);
  return alone;
}

class SeveralTargets : public testing::TestWithParam<bool> {};

TEST_P(SeveralTargets, EqualSeparateExportsAndReadOnce) {
  const Alone alone = export_alone(GetParam());
  for (const int jobs : {1, 2, 8}) {
    const std::string out = fresh_folder("together");
    const auto together = export_targets(both_targets(out, jobs, GetParam()));
    ASSERT_TRUE(together) << error_of(together);
    EXPECT_EQ(all_bytes(out) == alone.bytes, true) << jobs << " jobs";
    // Each group has a copy of the norm, so the target with more groups reads more bytes.
    EXPECT_EQ(bytes_read(*together),
              std::max(alone.summaries[0].bytes_read, alone.summaries[1].bytes_read));
  }
}

TEST_P(SeveralTargets, ResumeAStoppedExport) {
  const Alone alone = export_alone(GetParam());
  const std::string out = fresh_folder("out");
  std::vector<ExportOptions> targets = both_targets(out, 2, GetParam());
  size_t kept = 0;
  for (const size_t calls : {3, 20, 40, 60}) {
    fs::remove_all(out);
    std::vector<ExportOptions> stopping = targets;
    const StopAfter stop(calls);
    for (ExportOptions& options : stopping) options.callbacks.stop = stop;
    EXPECT_THAT(error_of(export_targets(stopping)),
                AllOf(HasSubstr("export.interrupted"), HasSubstr("export.unfinished")));
    for (const ExportOptions& options : targets) {
      EXPECT_TRUE(has_journal(options.output.folder));
      EXPECT_FALSE(fs::exists(options.output.folder + "/manifest.json"));
    }
    const auto resumed = export_targets(targets);
    ASSERT_TRUE(resumed) << error_of(resumed);
    for (const ExportSummary& summary : *resumed) kept += summary.parts_kept;
    EXPECT_EQ(all_bytes(out) == alone.bytes, true) << "stopped at call " << calls;
  }
  EXPECT_GT(kept, 0u);
}

// The common folder is locked in the same way as the folder of a single target.
TEST(SeveralTargetsLock, RejectsWhileASingleExportRuns) {
  const std::string out = fresh_folder("out");
  {
    auto lock = FolderLock::take(out);
    ASSERT_TRUE(lock);
    EXPECT_THAT(error_of(export_targets(both_targets(out, 1))),
                AllOf(HasSubstr("export.locked"), HasSubstr(out)));
  }
  EXPECT_TRUE(fs::is_empty(out));
}

TEST(SeveralTargetsLock, RejectsASingleExportWhileLocked) {
  const std::string out = fresh_folder("out");
  std::vector<ExportOptions> targets = both_targets(out, 1);
  ExportOptions second = export_options_of(checkpoint_of(kCheckpoint), "onnx", out);
  second.output.force = true;
  bool tried = false;
  targets.front().callbacks.stop = [&] {
    if (!std::exchange(tried, true)) {
      const auto refused = export_targets({&second, 1});
      EXPECT_THAT(error_of(refused), AllOf(HasSubstr("export.locked"), HasSubstr(out)));
    }
    return false;
  };
  const auto exported = export_targets(targets);
  ASSERT_TRUE(exported) << error_of(exported);
  EXPECT_TRUE(tried);
  EXPECT_FALSE(fs::exists(out + "/" + kLockFile));
}

// Both finished and unfinished exports are rejected.
TEST(SeveralTargetsLock, RejectsFoldersOfASingleExport) {
  const std::string out = fresh_folder("out");
  const ExportOptions first = export_options_of(checkpoint_of(kCheckpoint), "onnx", out);
  const auto refused = [&] {
    std::vector<ExportOptions> targets = both_targets(out, 1);
    for (ExportOptions& options : targets) options.output.force = true;
    const auto before = all_bytes(out);
    EXPECT_THAT(error_of(export_targets(targets)),
                AllOf(HasSubstr("export.out_not_empty"), HasSubstr("an export for one target")));
    EXPECT_EQ(all_bytes(out) == before, true);
  };
  ASSERT_FALSE(export_until(first, 20));
  refused();
  ASSERT_TRUE(export_model(first));
  refused();
}

TEST(SeveralTargetsLock, RejectsReplacingSeveralTargetsBySingle) {
  const std::string out = fresh_folder("out");
  ExportOptions one = export_options_of(checkpoint_of(kCheckpoint), "onnx", out);
  one.output.force = true;
  const auto refused = [&] {
    const auto before = all_bytes(out);
    EXPECT_THAT(error_of(export_targets({&one, 1})),
                AllOf(HasSubstr("export.out_not_empty"), HasSubstr("folders of other exports")));
    EXPECT_EQ(all_bytes(out) == before, true);
  };
  std::vector<ExportOptions> stopped = both_targets(out, 1);
  stopped.front().callbacks.stop = StopAfter(20);
  ASSERT_FALSE(export_targets(stopped));
  refused();
  ASSERT_TRUE(export_targets(both_targets(out, 1)));
  refused();
}

INSTANTIATE_TEST_SUITE_P(Cut, SeveralTargets, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "groups" : "alike"; });

// ---- The command -------------------------------------------------------------------------------

TEST(SeveralTargetsCommand, WritesFoldersThatPassTheCheck) {
  const std::string out = fresh_folder("out");
  const Outcome exported = export_case(
      kCheckpoint, out, {"--target", "onnx,ane", "--dtype", "f16", "--tokens", "1,16", "--json"});
  expect_fine(exported);
  const nlohmann::json report = nlohmann::json::parse(exported.out);
  ASSERT_EQ(report["targets"].size(), 2u);
  uint64_t read = 0;
  for (size_t i = 0; i < 2; ++i) {
    const nlohmann::json& target = report["targets"][i];
    EXPECT_EQ(target["target"], i == 0 ? "onnx" : "ane");
    EXPECT_EQ(target["out"], out + (i == 0 ? "/onnx" : "/ane"));
    read += target["bytes_read"].get<uint64_t>();
    expect_fine(run_command({"check", target["out"], "--digests"}));
    expect_fine(validate_case(kCheckpoint, target["out"], {"--precision", "f16"}));
  }
  EXPECT_EQ(report["bytes_read"], read);
}

TEST(SeveralTargetsCommand, CheckRejectsTheCommonFolder) {
  const std::string out = fresh_folder("out");
  EXPECT_THAT(run_command({"check", out}).err, HasSubstr("give the folder that moec export wrote"));
  expect_fine(export_case(kCheckpoint, out, {"--target", "onnx,ane", "--tokens", "1"}));
  const std::string both =
      "give one of the exports in this folder: " + out + "/ane, " + out + "/onnx";
  EXPECT_THAT(run_command({"check", out}).err, HasSubstr(both));
  fs::rename(out + "/ane/manifest.json", out + "/ane/" + kJournalFile);  // as if unfinished
  EXPECT_THAT(run_command({"check", out}).err, HasSubstr(both));
  std::ofstream(out + "/" + kJournalFile).put('x');
  EXPECT_THAT(run_command({"run", out, "--prompt-tokens", "1"}).err,
              HasSubstr("run the same export command again to resume the unfinished export"));
}

TEST(SeveralTargetsCommand, AppliesFlagsWhereSupported) {
  const std::string out = fresh_folder("out"), alone = fresh_folder("alone");
  expect_fine(export_case(kCheckpoint, out,
                          {"--target", "onnx,ane", "--tokens", "1,4", "--onnx-checksum", "--widths",
                           "functions", "--chip", "m1"}));
  expect_fine(export_case(kCheckpoint, alone + "/onnx", {"--tokens", "1,4", "--onnx-checksum"}));
  expect_fine(
      export_case(kCheckpoint, alone + "/ane",
                  {"--target", "ane", "--tokens", "1,4", "--multi-function", "--chip", "m1"}));
  EXPECT_EQ(all_bytes(out) == all_bytes(alone), true);
}

// Writes a target file with the content of the built-in target `like` and the name `name`.
std::string target_file(const std::string& like, const std::string& name) {
  nlohmann::json target = read_json(source_path("backends/targets/" + like + ".json"));
  target["name"] = name;
  std::string path = fresh_folder("target") + "/mine.json";
  std::ofstream(path) << target;
  return path;
}

TEST(SeveralTargetsCommand, NamesFoldersAfterTheTarget) {
  const std::string out = fresh_folder("out"), alone = fresh_folder("alone");
  const std::string file = target_file("onnx", "mine");
  const Outcome exported = export_case(kCheckpoint, out, {"--target", "onnx," + file, "--json"});
  expect_fine(exported);
  expect_fine(export_case(kCheckpoint, alone, {"--target", file}));
  EXPECT_EQ(all_bytes(out + "/mine") == all_bytes(alone), true);
}

TEST(SeveralTargetsCommand, RejectsInvalidTargetsBeforeWriting) {
  const std::string out = fresh_folder("out");
  const auto refused = [&](Words flags) {
    const Outcome outcome = export_case(kCheckpoint, out, std::move(flags));
    EXPECT_EQ(outcome.exit_code, kExitBadInput);
    EXPECT_TRUE(fs::is_empty(out));
    return outcome.err;
  };
  EXPECT_THAT(refused({"--target", "ane,ane"}), HasSubstr("two targets named ane"));
  EXPECT_THAT(refused({"--target", "onnx,"}), HasSubstr("target.unknown"));
  EXPECT_THAT(refused({"--target", "onnx,tpu"}), HasSubstr("target.unknown"));
  EXPECT_THAT(refused({"--target", "onnx," + target_file("onnx", "../up")}),
              HasSubstr("is not a valid folder name"));
  EXPECT_THAT(refused({"--target", "onnx," + target_file("onnx", "mine"), "--spec-version", "9"}),
              AllOf(HasSubstr("export.flags"), HasSubstr("target onnx, mine writes none")));
}

TEST(SeveralTargetsCommand, KeepsAnExistingExportWithoutForce) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case(kCheckpoint, out + "/ane", {"--target", "ane"}));
  const auto before = all_bytes(out);
  const Outcome refused = export_case(kCheckpoint, out, {"--target", "onnx,ane"});
  EXPECT_THAT(refused.err, AllOf(HasSubstr("export.out_not_empty"), HasSubstr(out + "/ane")));
  EXPECT_EQ(all_bytes(out) == before, true);
  expect_fine(export_case(kCheckpoint, out, {"--target", "onnx,ane", "--force"}));
  expect_fine(run_command({"check", out + "/onnx"}));
}

// Core ML for iOS 15 has no states; the export compiles one shard of each kind first to detect
// this.
TEST(SeveralTargetsCommand, RejectsAllForAnImpossibleTarget) {
  const std::string out = fresh_folder("parent") + "/out";
  const Outcome failed =
      export_case(kCheckpoint, out, {"--target", "onnx,ane", "--spec-version", "6"});
  EXPECT_EQ(failed.exit_code, kExitBadInput);
  EXPECT_THAT(failed.err, HasSubstr("coreml.spec_too_low"));
  EXPECT_FALSE(fs::exists(out));
}

}  // namespace
}  // namespace moec
