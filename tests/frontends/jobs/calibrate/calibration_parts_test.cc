// Calibrations in parts (--part), and the calibration that joins them (--join).
#include <gmock/gmock.h>

#include "backends/files/digest.h"
#include "backends/output/folder_lock.h"
#include "backends/output/part_folders.h"
#include "backends/weights/calibration/calibration_index.h"
#include "backends/weights/calibration/sensitivity.h"
#include "frontends/jobs/calibrate/calibrate_model.h"
#include "frontends/jobs/calibrate/layer_shares.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/golden_cases.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int64_t kParts = 3;

std::string tokens_file(int64_t count, int64_t vocab = 64) {
  std::string ids;
  for (int64_t i = 0; i < count; ++i) ids += std::to_string(i * i * 7 % vocab) + " ";
  const std::string path = fresh_folder("tokens" + std::to_string(count)) + "/ids";
  write_file(path, ids);
  return path;
}

CalibrateOptions divided_calibration(const std::string& out, const std::string& model = "tinymoe") {
  CalibrateOptions options;
  options.source = checkpoint_of(model);
  options.tokens_file = tokens_file(96, 61);
  options.folder = out;
  options.window = 32;
  return options;
}

CalibrateOptions part_of(CalibrateOptions options, int64_t index, int64_t count = kParts) {
  options.part = {index, count};
  return options;
}

CalibrateOptions joined(CalibrateOptions options) {
  options.join = true;
  return options;
}

std::string error_of(const Result<CalibrationReport>& report) {
  return report ? "no error" : render(report.error());
}

std::string run_error(const CalibrateOptions& options) {
  return error_of(calibrate_model(options));
}

void calibrate_parts(const CalibrateOptions& options, int64_t count = kParts) {
  for (int64_t i = 0; i < count; ++i) EXPECT_EQ(run_error(part_of(options, i, count)), "no error");
}

// Digests of all files, which a failing test can print.
std::map<std::string, std::string> digests_in(const std::string& folder) {
  std::map<std::string, std::string> files = all_bytes(folder);
  for (auto& [name, bytes] : files) bytes = digest_text(bytes);
  return files;
}

// Files of an undivided calibration.
std::map<std::string, std::string> whole_digests(CalibrateOptions options) {
  options.folder = fresh_folder("whole");
  options.part = std::nullopt;
  options.join = false;
  EXPECT_EQ(run_error(options), "no error");
  return digests_in(options.folder);
}

void damage(const std::string& file) {
  std::string bytes = read_file(file);
  bytes[bytes.size() / 2] ^= 1;
  write_file(file, bytes);
}

class PartsOfModel : public testing::TestWithParam<std::tuple<const char*, int64_t>> {};

TEST_P(PartsOfModel, JoinToTheUndividedBytes) {
  const auto& [model, count] = GetParam();
  CalibrateOptions options = divided_calibration(fresh_folder("out"), model);
  // Several groups of experts per layer, and sums in blocks.
  if (count == 2) options.group_bytes = 100'000;
  size_t layers = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto part = calibrate_model(part_of(options, i, count));
    ASSERT_TRUE(part) << error_of(part);
    layers += part->index.layers.size();
  }
  EXPECT_FALSE(fs::exists(options.folder + "/calibration.json"));
  const auto report = calibrate_model(joined(options));
  ASSERT_TRUE(report) << error_of(report);
  EXPECT_EQ(report->index.layers.size(), layers) << "no layer is in two parts";
  EXPECT_EQ(report->resumed_layers, layers);
  EXPECT_EQ(digests_in(options.folder), whole_digests(options));
}

INSTANTIATE_TEST_SUITE_P(Calibration, PartsOfModel,
                         testing::Combine(testing::Values("tinymoe", "gpt_oss_a", "nemotron_h_c",
                                                          "deepseek_v32_a", "llama4_a"),
                                          testing::Values(1, 2, kParts, 40)));

class CalibrationParts : public testing::Test {
 protected:
  void SetUp() override {
    out_ = fresh_folder("out");
    options_ = divided_calibration(out_);
    calibrate_parts(options_);
  }

  // Expects the bytes of an undivided calibration. Returns the number of adopted layers.
  size_t join() {
    const auto report = calibrate_model(joined(options_));
    EXPECT_TRUE(report) << error_of(report);
    EXPECT_EQ(digests_in(out_), whole_digests(options_));
    return report ? report->resumed_layers : 0;
  }
  CalibrationIndex index_of(int64_t part) const {
    return read_calibration_index(part_folder(out_, part)).value();
  }
  std::string file_in(int64_t part) const {
    return part_folder(out_, part) + "/" + index_of(part).layers.back().file;
  }

  std::string out_;
  CalibrateOptions options_;
};

TEST_F(CalibrationParts, AreCalibratedByTheJoin) {
  const size_t missing = index_of(1).layers.size();
  EXPECT_GT(missing, 0u);
  fs::remove_all(part_folder(out_, 1));
  EXPECT_EQ(join(), 5 - missing);
}

TEST_F(CalibrationParts, AreNotNeededByTheJoin) {
  fs::remove_all(out_);
  EXPECT_EQ(join(), 0u);
}

TEST_F(CalibrationParts, AreRepairedByTheJoin) {
  const std::string changed = file_in(0), longer = file_in(1), removed = file_in(2);
  damage(changed);
  write_file(longer, read_file(longer) + "x");
  fs::remove(removed);
  EXPECT_EQ(join(), 2u);
}

TEST_F(CalibrationParts, KeepNoLinksToOtherFiles) {
  const std::string file = file_in(1), other = fresh_folder("other") + "/file";
  fs::rename(file, other);
  fs::create_symlink(other, file);
  EXPECT_EQ(join(), 4u);
}

TEST_F(CalibrationParts, ResumeWithOtherCounts) {
  const auto again = calibrate_model(part_of(options_, 1, 2));
  ASSERT_TRUE(again) << error_of(again);
  EXPECT_GT(again->resumed_layers, 0u);
  join();
}

TEST_F(CalibrationParts, AreJoinedByAResumedJoin) {
  for (const int64_t part : {0, 2}) fs::remove_all(part_folder(out_, part));
  const CalibrateOptions options = joined(options_);
  for (int stops = 0; stops < 40; ++stops) {
    CalibrateOptions stopped = options;
    int windows = 0;
    stopped.stop = [&] { return ++windows == 7; };
    if (run_error(stopped) == "no error") break;
    EXPECT_EQ(read_calibration_index(out_)->finished, false);
    EXPECT_THAT(run_error(options_), HasSubstr("calibrate.not_joined"));
  }
  EXPECT_EQ(digests_in(out_), whole_digests(options_));
}

// Also if the parts are gone, and if a file of the join was damaged in the meantime.
TEST_F(CalibrationParts, StayInAnInterruptedJoin) {
  fs::remove_all(part_folder(out_, 0));
  CalibrateOptions stopped = joined(options_);
  stopped.stop = [] { return true; };
  EXPECT_THAT(run_error(stopped), HasSubstr("calibrate.interrupted"));
  fs::remove_all(out_ + "/.parts");
  EXPECT_THAT(run_error(options_), HasSubstr("calibrate.not_joined"));
  damage(out_ + "/head.hessians");
  const size_t adopted = read_calibration_index(out_)->layers.size();
  EXPECT_EQ(join(), adopted - 1);
}

TEST_F(CalibrationParts, RejectOtherInputs) {
  const auto before = digests_in(out_);
  const auto rejected = [&](auto change, const std::string& what) {
    CalibrateOptions other = options_;
    change(other);
    for (const CalibrateOptions& run : {joined(other), part_of(other, 1), part_of(other, 7, 8)}) {
      EXPECT_THAT(run_error(run), HasSubstr("calibrate.differs")) << what;
      EXPECT_THAT(run_error(run), HasSubstr("another " + what));
    }
    fs::remove_all(part_folder(out_, 7));
    EXPECT_EQ(digests_in(out_), before);
  };
  rejected([](auto& o) { o.source = checkpoint_of("tinytagger"); }, "checkpoint");
  rejected([](auto& o) { o.tokens_file = tokens_file(128); }, "text");
  rejected([](auto& o) { o.window = 16; }, "window");
  rejected([](auto& o) { o.group_bytes /= 2; }, "version of moec or other flags");
  rejected([](auto& o) { o.family.ignored_keys = {"bos_token_id"}; },
           "version of moec or other flags");
}

TEST_F(CalibrationParts, RequireTheJoinFlag) {
  EXPECT_THAT(run_error(options_), HasSubstr("calibrate.not_joined"));
}

TEST_F(CalibrationParts, RejectFinishedFolders) {
  join();
  EXPECT_THAT(run_error(part_of(options_, 0)), HasSubstr("calibrate.out_not_empty"));
  EXPECT_THAT(run_error(joined(options_)), HasSubstr("calibrate.out_not_empty"));
}

TEST_F(CalibrationParts, NameADamagedIndex) {
  damage(part_folder(out_, 1) + "/calibration.json");
  const std::string error = run_error(joined(options_));
  EXPECT_THAT(error, HasSubstr("calibrate.malformed"));
  EXPECT_THAT(error, HasSubstr(".parts/1/calibration.json"));
  EXPECT_THAT(error, HasSubstr("remove the folder of this part"));
  EXPECT_FALSE(fs::exists(out_ + "/calibration.json"));
}

TEST_F(CalibrationParts, AreNotACalibration) {
  EXPECT_THAT(run_command({"export", checkpoint_of("tinymoe"), "--out", fresh_folder("export"),
                           "--weights", "int4", "--calibration", part_folder(out_, 0)})
                  .err,
              HasSubstr("calibrate.unfinished"));
}

TEST_F(CalibrationParts, KeepForeignFiles) {
  write_file(out_ + "/.parts/1/notes.txt", "mine");
  fs::create_directory(out_ + "/.parts/9");
  ASSERT_EQ(run_error(joined(options_)), "no error");
  EXPECT_EQ(read_file(out_ + "/.parts/1/notes.txt"), "mine");
  EXPECT_FALSE(fs::exists(out_ + "/.parts/0"));
  EXPECT_FALSE(fs::exists(out_ + "/.parts/9"));
}

TEST_F(CalibrationParts, ExcludeCalibrationsOfTheFolder) {
  {
    const auto running = FolderLock::take(out_, LockKind::shared).value();
    EXPECT_THAT(run_error(joined(options_)), HasSubstr("export.locked"));
    // Another part may run at the same time, but not the same one.
    EXPECT_EQ(run_error(part_of(options_, 1)), "no error");
    const auto same = FolderLock::take(part_folder(out_, 1)).value();
    EXPECT_THAT(run_error(part_of(options_, 1)), HasSubstr("export.locked"));
  }
  const auto joining = FolderLock::take(out_).value();
  EXPECT_THAT(run_error(part_of(options_, 1)), HasSubstr("export.locked"));
}

// Runs the layers of the parts before it only if their hidden states are missing or damaged.
TEST_F(CalibrationParts, StartFromStatesOfOthers) {
  const auto windows_of_last = [&] {
    fs::remove_all(part_folder(out_, 2));
    int windows = 0;
    CalibrateOptions last = part_of(options_, 2);
    last.stop = [&] { return ++windows < 0; };
    EXPECT_EQ(run_error(last), "no error");
    return windows;
  };
  const int after_others = windows_of_last();
  for (const auto& entry : fs::directory_iterator(part_folder(out_, 1)))
    if (entry.path().filename().string().starts_with("state")) damage(entry.path());
  EXPECT_GT(windows_of_last(), after_others);
  join();
}

TEST(CalibrationPart, ResumesAfterStops) {
  const CalibrateOptions options = divided_calibration(fresh_folder("out"));
  for (int64_t i = kParts - 1; i >= 0; --i)
    for (int stops = 0; stops < 40; ++stops) {
      CalibrateOptions part = part_of(options, i);
      int windows = 0;
      part.stop = [&] { return ++windows == 8; };
      const std::string error = run_error(part);
      if (error == "no error") break;
      EXPECT_THAT(error, HasSubstr("calibrate.interrupted"));
    }
  EXPECT_EQ(run_error(joined(options)), "no error");
  EXPECT_EQ(digests_in(options.folder), whole_digests(options));
}

TEST(CalibrationPart, RejectsUndividedCalibrations) {
  CalibrateOptions options = divided_calibration(fresh_folder("out"));
  CalibrateOptions stopped = options;
  stopped.stop = [&] { return fs::exists(options.folder + "/L00.hessians"); };
  EXPECT_THAT(run_error(stopped), HasSubstr("calibrate.interrupted"));
  EXPECT_THAT(run_error(part_of(options, 0)), HasSubstr("by one process"));
  EXPECT_THAT(run_error(joined(options)), HasSubstr("by one process"));
  EXPECT_EQ(run_error(options), "no error");
}

TEST(CalibrationPart, RejectsFoldersWithOtherFiles) {
  const CalibrateOptions options = divided_calibration(fresh_folder("out"));
  write_file(options.folder + "/notes.txt", "mine");
  EXPECT_THAT(run_error(part_of(options, 0)), HasSubstr("calibrate.out_not_empty"));
  EXPECT_FALSE(fs::exists(options.folder + "/.parts"));
}

// Leftovers of killed processes: a lock, and first writes of an index.
TEST(CalibrationPart, IsWrittenAfterAKill) {
  const CalibrateOptions options = divided_calibration(fresh_folder("out"));
  fs::create_directories(options.folder + "/.parts/0");
  for (const char* file : {"export.lock", ".parts/0/export.lock", "calibration.json.part",
                           ".parts/0/calibration.json.part"})
    write_file(options.folder + "/" + file, "");
  EXPECT_EQ(run_error(part_of(options, 1)), "no error");
  CalibrateOptions stopped = joined(options);
  stopped.stop = [] { return true; };
  EXPECT_THAT(run_error(stopped), HasSubstr("calibrate.interrupted"));
  write_file(options.folder + "/L03.hessians.part", "left");
  EXPECT_EQ(run_error(joined(options)), "no error");
  EXPECT_EQ(digests_in(options.folder), whole_digests(options));
}

TEST(CalibrationPart, IsMeasuredAfterTheJoin) {
  CalibrateOptions options = divided_calibration(fresh_folder("out"), "olmoe_a");
  options.sensitivity = true;
  EXPECT_THAT(run_error(part_of(options, 0)), HasSubstr("calibrate.part"));
  EXPECT_TRUE(fs::is_empty(options.folder));
  CalibrateOptions plain = options;
  plain.sensitivity = false;
  calibrate_parts(plain, 2);
  CalibrateOptions stopped = joined(options);
  stopped.stop = [] { return true; };
  EXPECT_THAT(run_error(stopped), HasSubstr("calibrate.interrupted"));
  EXPECT_TRUE(read_calibration_index(options.folder)->finished);
  EXPECT_EQ(run_error(joined(options)), "no error");
  EXPECT_TRUE(read_sensitivity(options.folder));
  EXPECT_EQ(digests_in(options.folder), whole_digests(options));
}

TEST(CalibrationPart, RejectsOddFlags) {
  const auto error = [&](const Words& flags) {
    Words words = {"calibrate", checkpoint_of("tinymoe"), "--tokens", tokens_file(32),
                   "--out",     fresh_folder("flags")};
    words.insert(words.end(), flags.begin(), flags.end());
    return run_command(words).err;
  };
  for (const char* part : {"3/3", "-1/3", "1", "a/b", "0/0", "1/", "/2", "0/9223372036854775808"})
    EXPECT_THAT(error({"--part", part}), HasSubstr("[calibrate.part]")) << part;
  EXPECT_THAT(error({"--part", "0/2", "--join"}), HasSubstr("excludes"));
  EXPECT_THAT(error({"--part", "0/2", "--sensitivity"}), HasSubstr("excludes"));
  EXPECT_EQ(error({"--part", "1/9223372036854775807", "--quiet"}), "");
  CalibrateOptions both = part_of(joined(divided_calibration(fresh_folder("out"))), 0);
  EXPECT_THAT(run_error(both), HasSubstr("calibrate.part"));
}

TEST(CalibrationPart, PrintsItsLayers) {
  const std::string out = fresh_folder("out");
  const Words words = {"calibrate", checkpoint_of("tinymoe"), "--tokens", tokens_file(32), "--out",
                       out};
  const auto printed = [&](const Words& flags) {
    Words all = words;
    all.insert(all.end(), flags.begin(), flags.end());
    const Outcome outcome = run_command(all);
    expect_fine(outcome);
    return outcome.out;
  };
  EXPECT_THAT(printed({"--part", "0/2"}), HasSubstr("part 0/2: layers 0-"));
  EXPECT_THAT(printed({"--part", "1/2"}), HasSubstr(" and the head\nnext: the same command"));
  EXPECT_THAT(printed({"--part", "8/9"}), HasSubstr("no layers"));
  EXPECT_THAT(printed({"--join"}), HasSubstr("5 layers were kept from parts"));
}

double time_of(const SharedLayers& range, const std::vector<LayerTime>& costs) {
  double time = 0;
  if (range.begin == range.end) return 0;
  for (size_t i = 0; i < range.end; ++i)
    time += costs[i].forward + (i >= range.begin ? costs[i].sums : 0);
  return time;
}

TEST(LayerShares, ContainEachLayerOnce) {
  for (const int64_t layers : {0, 1, 5, 61})
    for (const double sums : {0.0, 1.0, 30.0})
      for (const int64_t count : {1, 2, 3, 7, 100}) {
        const std::vector<LayerTime> costs(static_cast<size_t>(layers), {1, sums});
        size_t next = 0;
        for (int64_t i = 0; i < count; ++i) {
          const SharedLayers range = layers_of_share({i, count}, costs);
          EXPECT_EQ(range.begin, next) << layers << " " << sums << " " << count;
          EXPECT_LE(range.begin, range.end);
          next = range.end;
        }
        EXPECT_EQ(next, costs.size());
      }
}

// The first share runs no layers of others, so it has the most.
TEST(LayerShares, TakeAboutEquallyLong) {
  const std::vector<LayerTime> costs(60, {1, 1});
  double slowest = 0;
  for (int64_t i = 0; i < 4; ++i)
    slowest = std::max(slowest, time_of(layers_of_share({i, 4}, costs), costs));
  EXPECT_EQ(layers_of_share({0, 4}, costs), (SharedLayers{0, 32}));
  // All layers forward, and 1/16 of the rest: 60 / (1 - 1/2^4) = 64.
  EXPECT_LE(slowest, 66);
}

TEST(LayerShares, BalanceSumsWithFreeForwardRuns) {
  const std::vector<LayerTime> costs(60, {0, 1});
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_EQ(layers_of_share({i, 4}, costs),
              (SharedLayers{static_cast<size_t>(15 * i), static_cast<size_t>(15 * i + 15)}));
}

}  // namespace
}  // namespace moec
