// Exports whose shards contain arbitrary sets of experts, and nodes that are split from such
// exports.
#include "frontends/jobs/split/split_export.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "backends/formats/read_shard.h"
#include "backends/manifest/expert_grid.h"
#include "backends/manifest/manifest_file.h"
#include "backends/runtime/session/session.h"
#include "frontends/jobs/check/check_split.h"
#include "ir/experts/expert_groups.h"
#include "ir/experts/expert_runs.h"
#include "tests/frontends/cli/checkpoint_tensors.h"
#include "tests/models/router_kinds.h"

namespace moec {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;

// Two nodes, which both have experts 0 and 3 of every four, so no set is consecutive.
ExpertSets experts_of_node(const ExpertGrid& grid, int64_t node) {
  ExpertSets sets;
  for (const int64_t layer : grid.layers)
    for (int64_t e = 0; e < grid.experts; ++e)
      if ((e + layer) % 4 != 1 + node) sets.layers[layer].push_back(e);
  return sets;
}

std::string groups_text(const ExpertGrid& grid, const std::string& more = "") {
  return R"({"groups": [{"name": "a", "experts": ")" + to_string(experts_of_node(grid, 0)) +
         R"("}, {"name": "b", "experts": ")" + to_string(experts_of_node(grid, 1)) + "\"}]" + more +
         "}";
}

std::string exported_with(const std::string& checkpoint, const std::string& name, Words flags) {
  const std::string out = fresh_folder(name);
  Words words = {"export",   checkpoint, "--out",     out, "--quiet",
                 "--tokens", "1,8",      "--context", "32"};
  words.insert(words.end(), flags.begin(), flags.end());
  expect_fine(run_command(words));
  return out;
}

Session session_at(const std::string& out, const std::string& mask = {}) {
  SessionOptions options;
  options.expert_mask = mask;
  auto session = Session::open(out, read_shard, options);
  EXPECT_TRUE(session.has_value()) << render(session.error());
  return std::move(*session);
}

std::vector<float> logits_in(Session session) {
  auto logits = session.feed(std::vector<int64_t>{3, 1, 4, 1, 5, 9, 2, 6});
  EXPECT_TRUE(logits.has_value()) << render(logits.error());
  return logits->data;
}

// In some families, the first expert group of a layer starts the sum, so every node would need it.
bool takes_groups(const std::string& golden) {
  constexpr std::string_view kStarting[] = {"zaya",  "gemma4",   "flex_olmo",
                                            "afmoe", "kolibri1", "axk1"};
  return std::none_of(std::begin(kStarting), std::end(kStarting),
                      [&](std::string_view family) { return golden.starts_with(family); });
}

// Exports the case with the groups file, and with one expert per shard.
struct GroupedExport {
  std::string name, single, grouped, groups;
  ExpertGrid grid;
  bool enough = false;  // whether both nodes have enough experts for a token

  explicit GroupedExport(const std::string& golden, Words flags = {}) : name(golden) {
    flags.insert(flags.end(), {"--experts-per-shard", "1"});
    single = exported_with(checkpoint_of(name), name + ".single", flags);
    grid = expert_grid(read_manifest(single).value());
    enough = !grid.layers.empty() && check_enough(experts_of_node(grid, 0), grid, "a") &&
             check_enough(experts_of_node(grid, 1), grid, "b");
    groups = fresh_folder(name + ".groups") + ".json";
    write_file(groups, groups_text(grid));
    flags[flags.size() - 2] = "--expert-groups";
    flags.back() = groups;
    if (takes_groups(name)) grouped = exported_with(checkpoint_of(name), name + ".grouped", flags);
  }

  SplitOptions options(const std::string& out_name) const {
    SplitOptions options;
    options.source = grouped;
    options.place_file = groups;
    options.out = fresh_folder(name + "." + out_name);
    return options;
  }
};

ExportSplit split_of(const SplitOptions& options) {
  auto split = split_export(options);
  EXPECT_TRUE(split.has_value()) << render(split.error());
  return std::move(*split);
}

TEST(SplitExport, NodesMatchBitsOfMaskedExports) {
  size_t split = 0;
  for (const std::string& name : cases_of_router_kinds()) {
    if (!takes_groups(name)) continue;
    SCOPED_TRACE(name);
    const GroupedExport exports(name);
    const std::vector<float> wanted = logits_in(session_at(exports.single));
    const std::vector<float> got = logits_in(session_at(exports.grouped));
    ASSERT_EQ(got.size(), wanted.size());
    float largest = 0, off = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      largest = std::max(largest, std::abs(wanted[i]));
      off = std::max(off, std::abs(wanted[i] - got[i]));
    }
    EXPECT_LE(off, 2e-5f * largest);
    if (!exports.enough) continue;
    ++split;
    const ExportSplit nodes = split_of(exports.options("nodes"));
    for (int64_t node = 0; node < 2; ++node) {
      const std::string mask = to_string(experts_of_node(exports.grid, node));
      const std::string folder = nodes.out + "/" + nodes.nodes[static_cast<size_t>(node)].name;
      EXPECT_EQ(logits_in(session_at(folder)), logits_in(session_at(exports.grouped, mask)));
    }
    const auto check = check_split(nodes.out, {});
    ASSERT_TRUE(check.has_value()) << render(check.error());
    EXPECT_TRUE(check->passed()) << render(check->findings);
    for (const CheckedNode& node : check->nodes)
      EXPECT_FALSE(has_error(node.report->findings)) << render(node.report->findings);
  }
  EXPECT_GE(split, 8u);
}

TEST(SplitExport, BanksMatchForAnyExpertSets) {
  const GroupedExport exports("qwen3_moe_a", {"--experts", "bank"});
  const std::vector<float> wanted = logits_in(session_at(exports.single));
  const std::vector<float> got = logits_in(session_at(exports.grouped));
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 1e-4f);
  EXPECT_EQ(run_command({"check", exports.grouped}).exit_code, 0);
}

TEST(SplitExport, GroupsExpertsByTheirNodes) {
  const GroupedExport exports("qwen3_moe_a");
  const Manifest manifest = read_manifest(exports.grouped).value();
  const ExpertPartition parts = read_expert_parts(exports.groups, exports.grid).value();
  for (const int64_t layer : exports.grid.layers) {
    std::vector<std::vector<int64_t>> held;
    for (const manifest::Shard& shard : manifest.shards) {
      if (shard.kind != ShardKind::experts || shard.layer != layer) continue;
      held.emplace_back();
      for (const ExpertRun& run : expert_runs(shard))
        for (int64_t e = run.first; e < run.first + run.count; ++e) held.back().push_back(e);
    }
    EXPECT_EQ(held, parts.at(layer));
    EXPECT_EQ(held.size(), 3u);
  }
}

// Groups of consecutive experts result in the files of --experts-per-shard.
TEST(SplitExport, WritesEqualBytesForConsecutiveExperts) {
  const std::string checkpoint = checkpoint_of("qwen3_moe_a");
  const std::string runs = exported_with(checkpoint, "runs", {"--experts-per-shard", "3"});
  const ExpertGrid grid = expert_grid(read_manifest(runs).value());
  ASSERT_EQ(grid.experts, 6);
  const std::string groups = fresh_folder("run_groups") + ".json";
  write_file(groups, R"({"groups": [{"name": "a", "experts": "*:0-2"},
                                    {"name": "b", "experts": "*:3-5"}]})");
  const std::string sets = exported_with(checkpoint, "sets", {"--expert-groups", groups});
  Manifest wanted = read_manifest(runs).value(), got = read_manifest(sets).value();
  EXPECT_EQ(got.shards, wanted.shards);
  EXPECT_EQ(got.schedule, wanted.schedule);
}

uint64_t bytes_below(const std::string& folder) {
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) bytes += entry.file_size();
  return bytes;
}

TEST(SplitExport, CountsUniqueBytes) {
  const GroupedExport exports("qwen2_moe_a");
  ASSERT_TRUE(exports.enough);
  SplitOptions options = exports.options("nodes");
  options.dry_run = true;
  const ExportSplit dry = split_of(options);
  EXPECT_TRUE(fs::is_empty(options.out));
  options.dry_run = false;
  const ExportSplit split = split_of(options);
  EXPECT_EQ(dry.unique_bytes(), split.unique_bytes());
  uint64_t of_experts = 0, headers = 0, inodes = 0;
  std::set<std::string> shared;
  for (const ExportNode& node : split.nodes) {
    const std::string folder = split.out + "/" + node.name;
    EXPECT_EQ(bytes_below(folder), node.bytes());
    headers += node.manifest_bytes;
    of_experts += node.expert_bytes();
    for (const auto* files : {&node.trunk, &node.of_experts})
      for (const manifest::FileRef& file : *files) {
        EXPECT_TRUE(fs::equivalent(folder + "/" + file.path, exports.grouped + "/" + file.path));
        if (shared.insert(file.path).second) inodes += static_cast<uint64_t>(file.bytes);
      }
  }
  EXPECT_EQ(split.unique_bytes(), split.trunk_bytes() + of_experts + headers);
  EXPECT_LT(inodes + headers, split.unique_bytes());  // replicas are also links
  // Each expert counts once per node that has it.
  const Manifest whole = read_manifest(exports.grouped).value();
  uint64_t replicated = 0;
  for (const manifest::Shard& shard : whole.shards) {
    if (shard.kind != ShardKind::experts) continue;
    uint64_t bytes = 0;
    for (const manifest::Width& width : shard.widths)
      bytes += static_cast<uint64_t>(width.file.bytes);
    for (const manifest::FileRef& file : shard.data) bytes += static_cast<uint64_t>(file.bytes);
    for (int64_t node = 0; node < 2; ++node)
      replicated +=
          experts_of_node(exports.grid, node).has(shard.layer, shard.first_expert) ? bytes : 0;
  }
  EXPECT_EQ(of_experts, replicated);
}

TEST(SplitExport, RejectsShardsThatMixNodes) {
  const GroupedExport exports("qwen3_moe_a");
  SplitOptions options = exports.options("nodes");
  options.source =
      exported_with(checkpoint_of("qwen3_moe_a"), "runs", {"--experts-per-shard", "4"});
  const auto split = split_export(options);
  ASSERT_FALSE(split.has_value());
  const Diagnostic& error = split.error().front();
  EXPECT_EQ(error.code, "split.shards");
  EXPECT_THAT(error.cause,
              HasSubstr("layer 0: the shard mixes experts of node a with other experts"));
  EXPECT_EQ(error.place.shard, "L00.moe.g0");
  EXPECT_THAT(error.next_step, HasSubstr("--expert-groups " + exports.groups));
  EXPECT_TRUE(fs::is_empty(options.out));
}

TEST(SplitExport, RejectsGroupsWithTheSharedExpert) {
  SplitOptions options;
  options.source =
      exported_with(checkpoint_of("qwen2_moe_a"), "runs", {"--experts-per-shard", "1"});
  options.out = fresh_folder("nodes");
  options.expert_list = "*:1-3";
  const auto split = split_export(options);
  ASSERT_FALSE(split.has_value());
  EXPECT_EQ(split.error().front().code, "split.shards");
  EXPECT_THAT(split.error().front().cause, HasSubstr("the shard also adds the shared expert"));
}

TEST(SplitExport, RejectsGroupsThatScaleTheStream) {
  const std::string groups = fresh_folder("groups") + ".json";
  write_file(groups, R"({"groups": [{"name": "a", "experts": "*:0"}]})");
  const Outcome outcome = run_command(
      {"export", checkpoint_of("zaya_a"), "--out", fresh_folder("out"), "--expert-groups", groups});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("plan.expert_groups"));
}

// Two stages with one layer each.
TEST(SplitExport, ConnectsStagesWithTheResidualStream) {
  const GroupedExport exports("qwen3_moe_a");
  ASSERT_TRUE(exports.enough);
  const Manifest whole = read_manifest(exports.grouped).value();
  const int64_t layers = whole.model.layers;
  ASSERT_GE(layers, 2);
  SplitOptions options = exports.options("nodes");
  options.place_file += ".stages";
  write_file(options.place_file, groups_text(exports.grid, R"(, "stages": ["0-0", "1-)" +
                                                               std::to_string(layers - 1) + "\"]"));
  const ExportSplit split = split_of(options);
  ASSERT_EQ(split.nodes.size(), 4u);
  EXPECT_EQ(split.nodes[0].name, "stage0.a");
  EXPECT_EQ(split.nodes[3].name, "stage1.b");
  EXPECT_TRUE(split.nodes[0].manifest.logits.slices.empty());
  EXPECT_EQ(split.nodes[2].manifest.embedding.rows, 0);
  // The first input of each second-stage node is the last output of the first stage.
  for (const size_t node : {0, 1}) {
    const std::string& edge = split.nodes[node].manifest.schedule.back().outputs.front().edge;
    EXPECT_EQ(split.nodes[2 + node].manifest.schedule.front().inputs.front().edge, edge);
    EXPECT_EQ(split.nodes[3 - node].manifest.schedule.front().inputs.front().edge, edge);
  }
  const auto check = check_split(split.out, {});
  ASSERT_TRUE(check.has_value()) << render(check.error());
  EXPECT_TRUE(check->passed()) << render(check->findings);
  const auto session = Session::open(split.out + "/stage1.a", read_shard);
  ASSERT_FALSE(session.has_value());
  EXPECT_EQ(session.error().front().code, "session.stage");
  EXPECT_THAT(session.error().front().cause, HasSubstr("stage 1 of 2"));
  fs::remove_all(split.out + "/stage1.a");
  fs::remove_all(split.out + "/stage1.b");
  const auto missing = check_split(split.out, {});
  ASSERT_TRUE(missing.has_value());
  EXPECT_EQ(missing->findings.front().code, "check.node_missing");
  EXPECT_EQ(missing->findings.back().code, "check.uncovered");
  EXPECT_THAT(missing->findings.back().cause, HasSubstr("layer 1 is on no node"));
}

TEST(SplitExport, CheckFindsExpertsOfMissingNodes) {
  const GroupedExport exports("qwen3_moe_a");
  const ExportSplit split = split_of(exports.options("nodes"));
  EXPECT_EQ(run_command({"check", split.out}).exit_code, 0);
  fs::remove_all(split.out + "/b");
  const Outcome outcome = run_command({"check", split.out});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("check.uncovered"));
  EXPECT_THAT(outcome.out, HasSubstr("L0:1,5 are on no node"));
}

TEST(SplitExport, CheckFindsNodesOfOtherCheckpoints) {
  const GroupedExport exports("qwen3_moe_a");
  const ExportSplit split = split_of(exports.options("nodes"));
  const std::string trunk = split.out + "/b/manifest.json";
  std::string text = read_file(trunk);
  const Manifest manifest = *read_manifest(split.out + "/b");
  const std::string digest = manifest.embedding.file.digest;
  text.replace(text.find(digest), digest.size(), std::string(digest.size(), '0'));
  write_file(trunk, text);
  fs::remove(split.out + "/b/manifest.bin");
  EXPECT_THAT(run_command({"check", split.out}).out, HasSubstr("check.other_model"));
}

TEST(SplitExport, RejectsSplittingAndProbingNodes) {
  const GroupedExport exports("qwen3_moe_a");
  const ExportSplit split = split_of(exports.options("nodes"));
  const std::string node = split.out + "/a";
  const Outcome again =
      run_command({"split", node, "--groups", "2", "--out", fresh_folder("again") + "/out"});
  EXPECT_THAT(again.err, HasSubstr("[split.source]"));
  const Outcome probed =
      run_command({"probe", node, "--groups", exports.groups, "--tokens", exports.groups});
  EXPECT_THAT(probed.err, HasSubstr("[probe.not_whole]"));
}

TEST(SplitExport, PrintsNodesAndReplacesWithForce) {
  const GroupedExport exports("qwen3_moe_a");
  const std::string out = fresh_folder("nodes");
  const Words words = {"split", exports.grouped, "--place", exports.groups, "--out", out, "--json"};
  const Outcome outcome = run_command(words);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto report = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(report["nodes"][0]["name"], "a");
  EXPECT_EQ(report["nodes"][0]["experts"], to_string(experts_of_node(exports.grid, 0)));
  EXPECT_EQ(report["linked"], true);
  EXPECT_THAT(run_command(words).out, HasSubstr("split.out_not_empty"));
  Words again = words;
  again.back() = "--force";
  EXPECT_EQ(run_command(again).exit_code, 0);
  EXPECT_THAT(run_command({"inspect", out + "/a"}).out, HasSubstr("node a, stage 0 of 1"));
  EXPECT_THAT(
      run_command({"split", exports.grouped, "--groups", "2", "--out", exports.grouped + "/nodes"})
          .err,
      HasSubstr("split."));
}

}  // namespace
}  // namespace moec
