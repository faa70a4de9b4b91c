// moec discover: predicts the experts of a text without running experts.
#include "frontends/jobs/residency/discover_experts.h"

#include <nlohmann/json.hpp>

#include "backends/manifest/manifest_file.h"
#include "backends/residency/expert_trace.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

const std::string kPrompt = "def f(x):\n    return x + 1\n";

std::string grouped_tinymoe() {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("tinymoe", out, {"--routing", "host", "--experts-per-shard", "1"}));
  return out;
}

TEST(Discover, WritesAProfileAndItsRecall) {
  const std::string out = grouped_tinymoe(), folder = fresh_folder("found");
  const std::string file = folder + "/profile.json", trace = folder + "/t.csv";
  const Outcome told =
      run_command({"discover", out, "--prompt", kPrompt, "--out", file, "--recall", "--json"});
  expect_fine(told);
  const auto json = nlohmann::json::parse(told.out);
  EXPECT_EQ(json["exact"], false);
  const ExpertProfile profile = read_expert_profile(file).value();
  EXPECT_EQ(profile.source, "discovery");
  ASSERT_EQ(profile.layers.size(), 4u);
  for (const LayerProfile& layer : profile.layers) {
    int64_t sum = 0;
    for (const int64_t count : layer.selections) sum += count;
    EXPECT_EQ(sum, 27 * 2);
  }

  // Layer 0 has the same inputs as in a full run, because no experts precede its router.
  expect_fine(run_command({"trace", out, "--prompt", kPrompt, "--out", trace, "-q"}));
  std::vector<int64_t> first(16, 0);
  const std::vector<TraceRow> rows = read_trace(trace).value();
  for (const TraceRow& row : rows)
    if (row.layer == 0) ++first[static_cast<size_t>(row.expert)];
  EXPECT_EQ(profile.layers[0].selections, first);
  ASSERT_EQ(json["recall"].size(), 4u);
  EXPECT_EQ(json["recall"][0]["choices"], 1);
  EXPECT_EQ(json["recall"][0]["found"], json["recall"][0]["used"]);
  EXPECT_LT(json["recall"][3]["choices"], 1);
  for (const auto& layer : json["recall"]) EXPECT_LE(layer["top_half"], layer["best_half"]);
}

// Expects that everything except the experts and the head is read.
TEST(Discover, ReadsNoExperts) {
  const std::string out = grouped_tinymoe(), file = fresh_folder("found") + "/profile.json";
  const Outcome told =
      run_command({"discover", out, "--prompt", kPrompt, "--out", file, "--json", "-q"});
  expect_fine(told);
  int64_t trunk = 0, all = 0;
  const Manifest manifest = read_manifest(out).value();
  for (const manifest::Shard& shard : manifest.shards) {
    all += shard.weight_bytes;
    if (shard.kind != ShardKind::experts && shard.kind != ShardKind::lm_head)
      trunk += shard.weight_bytes;
  }
  const auto json = nlohmann::json::parse(told.out);
  EXPECT_EQ(json["bytes_read"], trunk);
  EXPECT_EQ(json["bytes_full"], all);
  EXPECT_GT(all, 5 * trunk);
  // Missing expert groups are harmless, because discover does not open their files.
  for (const auto& entry : std::filesystem::directory_iterator(out + "/moe"))
    std::filesystem::remove(entry.path());
  expect_fine(run_command({"discover", out, "--prompt", kPrompt, "--out", file, "-q", "--force"}));
}

TEST(Discover, RejectsUnsupportedInput) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("tinymoe", out));
  EXPECT_THAT(
      run_command({"discover", out, "--prompt", "a", "--out", fresh_folder("profile") + "/p.json"})
          .err,
      testing::HasSubstr("[discover.no_groups]"));
  EXPECT_THAT(run_command({"discover", out, "--out", fresh_folder("profile") + "/p.json"}).err,
              testing::HasSubstr("[analyze.empty]"));
  EXPECT_THAT(
      run_command({"discover", checkpoint_of("tinymoe"), "--prompt", "a", "--out", "p"}).err,
      testing::HasSubstr("[cli.wrong_source]"));
}

}  // namespace
}  // namespace moec
