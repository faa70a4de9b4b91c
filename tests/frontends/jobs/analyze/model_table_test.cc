// The cost table: compares it with hand counts for a small model, and tests its files.
#include "frontends/jobs/analyze/model_table.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "backends/manifest/manifest_file.h"
#include "frontends/jobs/analyze/tabulate_model.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

using testing::HasSubstr;
using testing::Not;

// mixtral_b has 2 layers, hidden size 60, 6 query and 2 key heads of size 10, and vocabulary 101
// with a tied head. Each token selects 3 of 6 experts of width 36. Weights are f16 on disk. The
// tables use a context of 32.
constexpr int64_t kEmbedding = 101 * 60;
constexpr int64_t kAttention = 60 * 60 + 2 * 20 * 60 + 60 * 60;
constexpr int64_t kNormsOfLayer = 2 * 60;
constexpr int64_t kRouter = 6 * 60;
constexpr int64_t kOneExpert = 3 * 36 * 60;
constexpr int64_t kTrunk = kEmbedding + 2 * (kAttention + kNormsOfLayer + kRouter) + 60;
constexpr int64_t kAllParameters = kTrunk + 2 * 6 * kOneExpert;
constexpr int64_t kActive = kTrunk + 2 * 3 * kOneExpert;
// Each query is multiplied by the keys and values of 32 cached rows and of the new row.
constexpr int64_t kScores = 2 * 6 * 10 * 33;
constexpr int64_t kMacsOfTrunk = kEmbedding + 2 * (kAttention + kRouter + kScores);

AnalyzeOptions table_options(const std::string& source, bool exported) {
  AnalyzeOptions options;
  options.source = source;
  options.exported = exported;
  options.folder = fresh_folder("table");
  options.text.window = 32;
  options.table.emplace();
  options.table->runs = 1;
  return options;
}

std::string exported_case(const std::string& name, Words more = {}) {
  const std::string out = fresh_folder(name);
  more.insert(more.end(), {"--tokens", "1,4", "--context", "32"});
  expect_fine(export_case(name, out, more));
  return out;
}

ModelCosts costs_of(const AnalyzeOptions& options) {
  const auto costs = costs_of_model(options);
  EXPECT_TRUE(costs) << render(costs.error());
  return costs.value_or(ModelCosts());
}

TEST(ModelCosts, MatchHandCountsForACheckpoint) {
  const ModelCosts costs = costs_of(table_options(checkpoint_of("mixtral_b"), false));
  EXPECT_EQ(costs.parameters, kAllParameters);
  EXPECT_EQ(costs.active, kActive);
  EXPECT_EQ(costs.weight_bytes, 2 * kAllParameters);
  EXPECT_EQ(costs.all.bytes, 2 * (kAllParameters + 60)) << "plus a row of the embedding";
  EXPECT_EQ(costs.chosen.bytes, 2 * (kActive + 60));
  EXPECT_EQ(costs.all.macs, kMacsOfTrunk + 2 * 6 * kOneExpert);
  EXPECT_EQ(costs.chosen.macs, kMacsOfTrunk + 2 * 3 * kOneExpert);
  EXPECT_EQ(costs.multiplied, DType::f16);
  EXPECT_FALSE(costs.cache_bytes || costs.value_bytes || !costs.steps.empty());
}

// Sums the weight ranges of an export that belong to no expert or to one of the first `experts`
// experts.
int64_t bytes_of_ranges(const Manifest& manifest, int64_t experts) {
  int64_t bytes = 0;
  for (const manifest::Shard& shard : manifest.shards)
    for (const WeightRecord& weight : shard.weights)
      if (weight.role != WeightRole::expert || weight.first_expert < experts)
        for (const WeightRange& range : weight.ranges) bytes += range.bytes;
  return bytes;
}

TEST(ModelCosts, MatchTheFilesOfAnExport) {
  for (const Words& flags : {Words{}, Words{"--target", "ane", "--routing", "host"},
                             Words{"--weights", "experts=int4"}}) {
    const std::string out = exported_case("mixtral_b", flags);
    const Manifest manifest = read_manifest(out).value();
    const ModelCosts costs = costs_of(table_options(out, true));
    EXPECT_EQ(costs.parameters, kAllParameters);
    EXPECT_EQ(costs.active, kActive);
    const int64_t element = dtype_bytes(manifest.build.dtype), row = 60 * element;
    EXPECT_EQ(costs.all.bytes, bytes_of_ranges(manifest, 6) + row);
    EXPECT_EQ(costs.chosen.bytes, bytes_of_ranges(manifest, 3) + row);
    EXPECT_EQ(costs.weight_bytes, bytes_of_ranges(manifest, 6) + manifest.embedding.file.bytes +
                                      manifest.rope->table.file.bytes);
    EXPECT_EQ(costs.cache_bytes, 2 * 32 * 2 * (10 + 10) * element);
    EXPECT_GT(costs.value_bytes, 0);
  }
}

TEST(ModelCosts, CoverTheExportedWidths) {
  const ModelCosts costs = costs_of(table_options(exported_case("mixtral_b"), true));
  ASSERT_EQ(costs.steps.size(), 2u);
  EXPECT_EQ(costs.steps[0].tokens, 1);
  EXPECT_EQ(costs.steps[1].tokens, 4);
  for (const StepTime& step : costs.steps) EXPECT_GT(step.seconds, 0);
}

TEST(ModelCosts, CountExportedParametersLikeTheCheckpoint) {
  for (const char* name : {"qwen2_moe_b", "glm4_moe_a", "gpt_oss_a", "llama_a", "qwen3_b",
                           "granitemoehybrid_c", "openai_privacy_filter_a"}) {
    const ModelCosts exported = costs_of(table_options(exported_case(name), true));
    const ModelCosts checkpoint = costs_of(table_options(checkpoint_of(name), false));
    EXPECT_EQ(exported.parameters, checkpoint.parameters) << name;
    EXPECT_EQ(exported.active, checkpoint.active) << name;
  }
}

TEST(ModelCosts, OmitParametersWithoutAValidReport) {
  const std::string out = exported_case("llama_a");
  write_file(out + "/report.json", "{}");
  EXPECT_EQ(costs_of(table_options(out, true)).parameters, std::nullopt);
  write_file(out + "/report.json", R"({"parameters": {"all": -3}})");
  expect_error(costs_of_model(table_options(out, true)), "analyze.report",
               "lacks the number \"all\"");
  write_file(out + "/report.json", "{");
  expect_error(costs_of_model(table_options(out, true)), "analyze.report", "");
}

TEST(ModelCosts, RejectFoldersWithoutGraphs) {
  const std::string out = fresh_folder("as_gguf");
  expect_fine(export_case("mixtral_b", out, {"--target", "gguf", "--tokenizer", "none"}));
  expect_error(costs_of_model(table_options(out, true)), "analyze.no_graphs", "no graphs");
}

TEST(ModelCosts, StopOnRequestDuringTiming) {
  AnalyzeOptions options = table_options(exported_case("llama_a"), true);
  options.stop = [] { return true; };
  expect_error(tabulate_model(options), kAnalyzeInterrupted, "stopped");
}

TEST(LoadBalance, CountsExpertsAboveAFifthShare) {
  const auto used = [](std::vector<int64_t> counts) { return used_part(counts); };
  EXPECT_EQ(used({5, 5, 5, 5}), 1);
  EXPECT_EQ(used({0, 0, 0, 8}), 0.25);
  EXPECT_EQ(used({1, 9}), 0.5) << "1 equals a fifth of an even share, but does not exceed it";
  EXPECT_EQ(used({2, 8}), 1);
  EXPECT_EQ(used({0, 0}), 0);
  EXPECT_EQ(used({}), 0);
}

// Analyzes layers of four experts: an even one, one with a single loaded expert, and an empty one.
TEST(LoadBalance, AveragesTheLayers) {
  ExpertProfile profile{.model = "m", .experts = 4, .top_k = 1};
  profile.layers.push_back({.layer = 0, .tokens = 8, .selections = {2, 2, 2, 2}});
  profile.layers.push_back({.layer = 1, .tokens = 8, .selections = {0, 0, 8, 0}});
  profile.layers.push_back({.layer = 2, .tokens = 0, .selections = {0, 0, 0, 0}});
  const LoadBalance balance = balance_of(analysis_of(profile, {}));
  EXPECT_DOUBLE_EQ(balance.experts_a_token, 1);
  EXPECT_DOUBLE_EQ(balance.used, (1 + 0.25) / 2);
  EXPECT_NEAR(balance.gini, (0 + (1 - 1.0 / 4)) / 2, 1e-12);
  EXPECT_NEAR(balance.entropy_bits, (2.0 + 0) / 2, 1e-12);
  EXPECT_NEAR(balance.entropy_share, 0.5, 1e-12);
}

TEST(Energy, SumsBytesAndMacs) {
  EXPECT_DOUBLE_EQ(energy_of(1000, 10, {2, 3, ""}), 2030e-12);
  EXPECT_DOUBLE_EQ(horowitz_prices(DType::f32).per_byte, 162.5);
  EXPECT_DOUBLE_EQ(horowitz_prices(DType::f32).per_mac, 4.6);
  EXPECT_DOUBLE_EQ(horowitz_prices(DType::f16).per_mac, 1.5);
  EXPECT_THAT(horowitz_prices(DType::f16).source, HasSubstr("Horowitz, ISSCC 2014"));
}

// ---- the table ---------------------------------------------------------------------------------

TableColumn column_with(int64_t parameters, std::vector<StepTime> steps) {
  TableColumn column{.costs = {.source = "a", .model = "m"}, .prices = {1, 1, "test"}};
  column.costs.parameters = parameters;
  column.costs.steps = std::move(steps);
  return column;
}

const TableRow& row_of(const ModelTable& table, std::string_view metric) {
  for (const TableRow& row : table.rows)
    if (row.metric == metric) return row;
  ADD_FAILURE() << metric;
  return table.rows.front();
}

TEST(ModelTable, ComparesOnlyEqualQuantities) {
  const ModelTable table =
      model_table(column_with(30, {{1, 0.5}, {16, 2}}), column_with(20, {{1, 0.25}, {8, 1}}));
  EXPECT_EQ(row_of(table, "parameters").ratio(), 1.5);
  EXPECT_EQ(row_of(table, "step_seconds").ratio(), 2);
  EXPECT_EQ(row_of(table, "prefill_seconds").ratio(), std::nullopt) << "16 tokens against 8";
  EXPECT_EQ(row_of(table, "tokens_per_second").value, 8);
  EXPECT_EQ(row_of(table, "active_parameters").ratio(), std::nullopt) << "the baseline's is 0";
  EXPECT_EQ(row_of(table, "gini").value, std::nullopt);
  EXPECT_EQ(row_of(model_table(column_with(30, {}), std::nullopt), "parameters").ratio(),
            std::nullopt);
}

TEST(ModelTable, WritesCsvMarkdownTextAndJson) {
  const ModelTable table = model_table(column_with(30, {}), column_with(20, {}));
  EXPECT_THAT(table_csv(table),
              HasSubstr("metric,unit,model,baseline,ratio\nparameters,count,30,20,1.5\n"));
  EXPECT_THAT(table_csv(table), HasSubstr("\ngini,number,,,\n"));
  EXPECT_THAT(table_markdown(table), HasSubstr("| parameters | 30 | 20 | 1.500 |\n"));
  EXPECT_THAT(table_text(table), HasSubstr("1 pJ per byte and 1 pJ per MAC (test)"));
  const nlohmann::ordered_json json = table_json(table);
  EXPECT_EQ(json["rows"][0]["ratio"], 1.5);
  EXPECT_TRUE(json["rows"].back()["value"].is_number());
  EXPECT_THAT(table_text(model_table(column_with(30, {}), std::nullopt)), Not(HasSubstr("ratio")));
}

// ---- the command -------------------------------------------------------------------------------

Words table_command(const std::string& source, Words more = {}) {
  Words words = {"analyze", source, "--table", "--out", fresh_folder("tabled")};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(TableCommand, ComparesWithADenseBaseline) {
  const std::string tokens = fresh_folder("table_tokens") + ".txt";
  write_file(tokens, "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16");
  const Words words =
      table_command(checkpoint_of("mixtral_b"),
                    {"--tokens", tokens, "--baseline", checkpoint_of("llama_a"), "--json"});
  const Outcome outcome = run_command(words);
  expect_fine(outcome);
  const nlohmann::json report = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(report["layers"].size(), 2u);
  EXPECT_EQ(report["table"]["rows"][0]["value"], kAllParameters);
  EXPECT_EQ(report["table"]["baseline"]["model"], "llama");
  for (const char* file : {"table.csv", "table.md", "table.json", "profile.json"})
    EXPECT_TRUE(std::filesystem::exists(words[4] + "/" + file)) << file;
}

TEST(TableCommand, AcceptsDenseModelsWithoutText) {
  const Words words = table_command(checkpoint_of("llama_a"));
  const Outcome outcome = run_command(words);
  expect_fine(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("note[table.no_experts]"));
  EXPECT_THAT(outcome.err, HasSubstr("note[table.no_latency]"));
  EXPECT_FALSE(std::filesystem::exists(words[4] + "/profile.json"));
  EXPECT_TRUE(std::filesystem::exists(words[4] + "/table.csv"));
}

TEST(TableCommand, AcceptsEnergyPrices) {
  const Outcome outcome = run_command(
      table_command(checkpoint_of("llama_a"), {"--energy-per-byte", "2", "--energy-per-mac", "0"}));
  expect_fine(outcome);
  EXPECT_THAT(outcome.out, HasSubstr("energy 2 pJ per byte and 0 pJ per MAC (as given)"));
  const Outcome one =
      run_command(table_command(checkpoint_of("llama_a"), {"--energy-per-byte", "2"}));
  EXPECT_THAT(one.out, HasSubstr("1.5 pJ per MAC (one as given; the other Horowitz"));
}

TEST(TableCommand, RejectsFlagsWithoutEffect) {
  const auto refused = [](const Words& words) {
    const Outcome outcome = run_command(words);
    EXPECT_EQ(outcome.exit_code, kExitBadInput) << outcome.out;
    return outcome.err;
  };
  const std::string dense = checkpoint_of("llama_a");
  EXPECT_THAT(refused({"analyze", dense, "--out", fresh_folder("x"), "--baseline", dense}),
              HasSubstr("--table"));
  EXPECT_THAT(refused(table_command(dense, {"--energy-per-byte", "-1"})), HasSubstr("-1"));
  EXPECT_THAT(refused(table_command(dense, {"--energy-per-mac", "inf"})), HasSubstr("inf"));
  EXPECT_THAT(refused(table_command(dense, {"--repeats", "0"})), HasSubstr("0"));
  EXPECT_THAT(refused(table_command(dense, {"--baseline", source_path("README.md")})),
              HasSubstr("README.md"));
}

}  // namespace
}  // namespace moec
