// moec trace on exports and on checkpoints.
#include "backends/residency/expert_trace.h"
#include "frontends/jobs/residency/trace_model.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

const Words kText = {"--prompt", "def f(x):\n    return x + 1\n", "--window", "8", "-q"};

Outcome trace_command(const std::string& source, const std::string& file, Words more = {}) {
  Words words = {"trace", source, "--out", file};
  words.insert(words.end(), kText.begin(), kText.end());
  words.insert(words.end(), more.begin(), more.end());
  return run_command(words);
}

TEST(Trace, WritesEqualRowsForAllSources) {
  const std::string folder = fresh_folder("traces"), out = fresh_folder("out");
  expect_fine(export_case("tinymoe", out, {"--tokens", "1,4"}));
  const Outcome told = trace_command(out, folder + "/t.csv");
  expect_fine(told);
  EXPECT_EQ(told.out, "27 tokens in 4 layers: 216 rows in " + folder + "/t.csv (csv)\n");
  expect_fine(trace_command(out, folder + "/t.moetrace"));
  expect_fine(trace_command(out, folder + "/t.x", {"--format", "binary"}));
  expect_fine(trace_command(checkpoint_of("tinymoe"), folder + "/c.csv"));

  const auto rows = read_trace(folder + "/t.csv").value();
  EXPECT_EQ(read_trace(folder + "/t.moetrace").value(), rows);
  EXPECT_EQ(read_file(folder + "/t.moetrace"), read_file(folder + "/t.x"));
  EXPECT_LT(read_file(folder + "/t.moetrace").size(), rows.size() * 11);
  const auto checkpoint = read_trace(folder + "/c.csv").value();
  ASSERT_EQ(checkpoint.size(), rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(checkpoint[i].expert, rows[i].expert);
    EXPECT_NEAR(checkpoint[i].weight, rows[i].weight, 1e-5);
  }
}

// The first window of a text is what `moec run` processes and logs.
TEST(Trace, MatchesTheGateLogOfRun) {
  const std::string folder = fresh_folder("traces"), out = fresh_folder("out");
  expect_fine(export_case("tinymoe", out));
  expect_fine(run_command({"trace", out, "-q", "--out", folder + "/t.csv", "--prompt", "defin"}));
  expect_fine(
      run_command({"run", out, "--prompt", "defin", "-n", "1", "--log-gates", folder + "/g.csv"}));
  EXPECT_EQ(read_trace(folder + "/t.csv").value(), read_trace(folder + "/g.csv").value());
}

TEST(Trace, NeverOverwritesFilesInTheSource) {
  const std::string folder = fresh_folder("traces"), out = fresh_folder("out");
  expect_fine(export_case("tinymoe", out));
  const std::string manifest = read_file(out + "/manifest.json");
  EXPECT_THAT(trace_command(out, out + "/manifest.json").err,
              testing::HasSubstr("[output.in_source]"));
  EXPECT_THAT(run_command({"run", out, "--prompt", "a", "-n", "1", "--log-gates",
                           out + "/attn/../manifest.json"})
                  .err,
              testing::HasSubstr("[output.in_source]"));
  EXPECT_THAT(run_command({"discover", out, "--prompt", "a", "--out", out + "/profile.json"}).err,
              testing::HasSubstr("[output.in_source]"));
  EXPECT_EQ(read_file(out + "/manifest.json"), manifest);
  write_file(folder + "/old.csv", "layer,token,expert,weight\n0,0,0,1\n");
  EXPECT_NE(trace_command(folder + "/none", folder + "/old.csv").exit_code, kExitFine);
  EXPECT_EQ(read_file(folder + "/old.csv"), "layer,token,expert,weight\n0,0,0,1\n");
  EXPECT_EQ(all_bytes(folder).size(), 1u) << "no partial file is left";
  EXPECT_THAT(run_command({"simulate", folder + "/old.csv", "--capacity", "2", "--plot",
                           folder + "/old.csv"})
                  .err,
              testing::HasSubstr("[output.in_source]"));
}

TEST(Trace, RejectsUnsupportedInput) {
  const std::string out = fresh_folder("out");
  EXPECT_THAT(run_command({"trace", checkpoint_of("tinymoe"), "--out", out + "/t.csv"}).err,
              testing::HasSubstr("[analyze.empty]"));
  EXPECT_THAT(trace_command(checkpoint_of("tinymoe"), out + "/none/t.csv").err,
              testing::HasSubstr("[trace.write]"));
  EXPECT_THAT(run_command({"trace", "x", "--out", "y", "--prompt", "a", "--tokens", "b"}).exit_code,
              kExitBadInput);
}

}  // namespace
}  // namespace moec
