// If an input file is a pipe without a writer, the command reports an error instead of blocking.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kPipedCheckpoint = "mixtral_a";
constexpr const char* kPipedTagger = "tinytagger";

// Replaces an existing file with a pipe.
std::string pipe_at(const std::string& path) {
  fs::remove(path);
  EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0) << path;
  return path;
}

std::string pipe_named(const std::string& name) {
  return pipe_at(fresh_folder("pipes") + "/" + name);
}

void expect_refused(const Words& words, const std::string& code, const std::string& file) {
  EXPECT_THAT(run_command(words).err,
              AllOf(HasSubstr("error[" + code + "] " + file), HasSubstr("not a regular file")));
}

TEST(Pipes, AreRejectedAsExpertLoads) {
  const std::string pipe = pipe_named("loads.csv");
  expect_refused({"plan", checkpoint_of(kPipedCheckpoint), "--device", "a=99GB", "--loads", pipe},
                 "loads.file", pipe);
}

TEST(Pipes, AreRejectedAsMeasuredPlacement) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case(kPipedCheckpoint, out));
  const std::string pipe = pipe_named("measured.json");
  expect_refused({"check", out, "--measured", pipe}, "measured.open", pipe);
}

TEST(Pipes, AreRejectedAsIr) {
  const std::string pipe = pipe_named("shard.ir");
  expect_refused({"opt", pipe}, "opt.unreadable", pipe);
}

TEST(Pipes, AreRejectedAsTarget) {
  const std::string pipe = pipe_named("mine.json");
  expect_refused({"plan", checkpoint_of(kPipedCheckpoint), "--target", pipe}, "file.not_regular",
                 pipe);
}

TEST(Pipes, AreRejectedAsGoldenResults) {
  const std::string out = fresh_folder("out"), golden = fresh_folder("golden");
  expect_fine(export_case(kPipedCheckpoint, out));
  const std::string pipe = pipe_at(golden + "/golden.json");
  expect_refused({"validate", out, "--golden", golden}, "golden.unreadable", pipe);
}

TEST(Pipes, AreRejectedAsTaggerCalibration) {
  const std::string copy = fresh_folder("copy");
  fs::copy(checkpoint_of(kPipedTagger), copy);
  const std::string pipe = pipe_at(copy + "/viterbi_calibration.json");
  expect_refused({"export", copy, "--out", fresh_folder("out")}, "calibration.malformed", pipe);
}

TEST(Pipes, AreRejectedAsTokenizer) {
  const std::string copy = fresh_folder("copy");
  fs::copy(checkpoint_of("tinymoe"), copy);
  const std::string pipe = pipe_at(copy + "/tokenizer.json");
  expect_refused({"export", copy, "--out", fresh_folder("out")}, "file.not_regular", pipe);
}

TEST(Pipes, AreRejectedAsConfig) {
  const std::string copy = fresh_folder("copy");
  fs::copy(checkpoint_of(kPipedCheckpoint), copy);
  const std::string pipe = pipe_at(copy + "/config.json");
  expect_refused({"export", copy, "--out", fresh_folder("out")}, "file.not_regular", pipe);
}

TEST(Pipes, AreRejectedAsManifest) {
  const std::string out = fresh_folder("out");
  const std::string pipe = pipe_at(out + "/manifest.json");
  expect_refused({"check", out}, "manifest.read", pipe);
}

TEST(Pipes, AreRejectedAsPrompt) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("tinymoe", out));
  const std::string pipe = pipe_named("prompt.txt");
  expect_refused({"run", out, "--prompt-file", pipe}, "run.prompt_file", pipe);
}

TEST(Pipes, AreRejectedAsShardFiles) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case(kPipedCheckpoint, out));
  for (const char* name : {"attn/L00.t1.onnx", "moe/L01.data"}) {
    pipe_at(out + "/" + name);
    const Outcome outcome = run_command({"check", out});
    EXPECT_NE(outcome.exit_code, kExitFine);
    EXPECT_THAT(outcome.out, HasSubstr(name));
  }
}

TEST(Pipes, AreReplacedAsTemporaryJournal) {
  const std::string out = fresh_folder("out");
  pipe_at(out + "/export.journal.part");
  expect_fine(export_case(kPipedCheckpoint, out));
}

TEST(Pipes, AreRejectedAsJournal) {
  const std::string out = fresh_folder("out");
  const std::string pipe = pipe_at(out + "/export.journal");
  EXPECT_THAT(export_case(kPipedCheckpoint, out).err, HasSubstr(pipe));
}

}  // namespace
}  // namespace moec
