// moec upcycle rejects each case with a code and a next step before writing anything.
#include <gmock/gmock.h>

#include "tests/frontends/jobs/upcycle/upcycle_cases.h"

namespace moec {
namespace {

using testing::HasSubstr;

// Expects that neither the folder nor its temporary sibling exists.
void expect_nothing_written(const std::string& folder) {
  EXPECT_FALSE(std::filesystem::exists(folder));
  const std::filesystem::path path(folder);
  EXPECT_FALSE(std::filesystem::exists(path.parent_path() /
                                       ("." + path.filename().string() + ".upcycling")));
}

void expect_refusal(const std::string& source, const Words& flags, const std::string& code) {
  const Upcycled made = upcycle(source, flags);
  EXPECT_EQ(made.outcome.exit_code, 2) << made.outcome.out;
  EXPECT_EQ(made.code(), code) << made.outcome.out;
  EXPECT_NE(made.report["diagnostics"][0]["next_step"], "") << made.outcome.out;
  expect_nothing_written(made.folder);
}

struct RefusedOptions {
  const char* name;
  Words flags;
  const char* code;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const RefusedOptions& refused, std::ostream* out) { *out << refused.name; }

class UpcycleRefusals : public testing::TestWithParam<RefusedOptions> {};

TEST_P(UpcycleRefusals, ReportCodesAndNextSteps) {
  expect_refusal(checkpoint_of("llama_b"), GetParam().flags, GetParam().code);
}

// llama_b has 36 hidden units and three layers.
const RefusedOptions kRefusedOptions[] = {
    {"width", {"--granularity", "5", "--experts", "10", "--top-k", "5"}, "upcycle.granularity"},
    {"copies_in_parts", {"--init", "copy", "--granularity", "2"}, "upcycle.granularity"},
    {"partition",
     {"--init", "partition", "--experts", "4", "--granularity", "2"},
     "upcycle.granularity"},
    {"parts_of_groups", {"--granularity", "4", "--experts", "10"}, "upcycle.experts"},
    {"picks_of_groups", {"--granularity", "2", "--top-k", "3"}, "upcycle.top_k"},
    {"picks_of_a_partition",
     {"--init", "partition", "--granularity", "4", "--experts", "4", "--top-k", "2"},
     "upcycle.top_k"},
    {"more_picks", {"--experts", "4", "--top-k", "5"}, "upcycle.top_k"},
    {"shared_width", {"--shared-width", "36"}, "upcycle.shared_width"},
    {"shared_rest", {"--shared-width", "5", "--granularity", "2"}, "upcycle.granularity"},
    {"share", {"--init", "drop:1.5"}, "upcycle.drop"},
    {"layer", {"--layers", "0,3"}, "upcycle.layers"},
    {"unknown_arch", {"--arch", "qwen3moe"}, "upcycle.arch"},
    {"norms", {"--arch", "qwen3_moe"}, "upcycle.arch"},
    {"no_latent", {"--arch", "deepseek_v3"}, "upcycle.arch"},
    {"no_mixer", {"--arch", "nemotron_h"}, "upcycle.arch"},
    {"no_shared_expert", {"--arch", "mixtral", "--shared-width", "4"}, "upcycle.arch"},
    {"all_layers", {"--arch", "mixtral", "--layers", "0"}, "upcycle.arch"},
    {"normalised", {"--arch", "mixtral", "--unnormalised"}, "upcycle.arch"},
    {"init", {"--init", "drop"}, "cli.value"},
    {"init_number", {"--init", "copy:1"}, "cli.value"},
    {"router", {"--router", "zero:1"}, "cli.value"},
    {"router_number", {"--router", "random:-1"}, "cli.value"},
    {"scale", {"--scale", "up"}, "cli.value"},
    {"layers", {"--layers", "1,,2"}, "cli.value"},
    {"no_layers", {"--layers", ""}, "cli.value"},
    {"seed", {"--seed", "-1"}, "cli.value"},
    {"spread", {"--router", "random:1e300"}, "upcycle.overflow"},
    {"layer_words", {"--layers", "first"}, "cli.value"},
    {"dtype", {"--dtype", "f64"}, "cli.value"},
    {"files", {"--max-shard-mb", "many"}, "cli.bytes"},
    {"multiply", {"--multiply", "2"}, "cli.conflict"},
};

INSTANTIATE_TEST_SUITE_P(Options, UpcycleRefusals, testing::ValuesIn(kRefusedOptions),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(UpcycleSources, RejectModelsWithExperts) {
  expect_refusal(checkpoint_of("mixtral_a"), {}, "upcycle.moe_already");
}

TEST(UpcycleSources, RejectQuantizedModels) {
  for (const char* source : {"deepseek_v3_c", "deepseek_v3_d", "gpt_oss_c"})
    expect_refusal(checkpoint_of(source), {"--from-moe", "--multiply", "2"}, "upcycle.quantised");
}

TEST(UpcycleSources, RejectWeightFiles) {
  expect_refusal(checkpoint_of("llama_b") + "/model.safetensors", {}, "cli.wrong_source");
}

TEST(UpcycleSources, RejectOutputInTheSource) {
  const CheckpointCopy copy("llama_b");
  for (const std::string& out : {copy.folder() + "/moe", copy.folder()}) {
    const Outcome outcome = run_command({"upcycle", copy.folder(), "--out", out});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("output.in_source"));
  }
  EXPECT_FALSE(std::filesystem::exists(copy.folder() + "/moe"));
}

// The message names the incompatible features, and the next step lists compatible architectures.
TEST(UpcycleArchs, NameCompatibleAlternatives) {
  const Upcycled norms = upcycle(checkpoint_of("qwen3_a"), {"--arch", "mixtral"});
  EXPECT_EQ(norms.code(), "upcycle.arch");
  const auto& found = norms.report["diagnostics"][0];
  EXPECT_THAT(found["cause"].get<std::string>(), HasSubstr("norms of queries and keys (per_head)"));
  EXPECT_THAT(found["cause"].get<std::string>(), HasSubstr("biases of q, k and v"));
  EXPECT_THAT(found["next_step"].get<std::string>(), HasSubstr("qwen3_moe"));
}

TEST(UpcycleArchs, RejectFeaturesOfTheDenseModel) {
  const std::vector<std::tuple<std::string, Words, std::string>> cases = {
      {"llama_a", {}, "biases of the feed-forward parts"},
      {"qwen3_b", {"--layers", "0"}, "the sliding window of layer"},
      {"qwen2_a", {"--arch", "mixtral"}, "biases of q, k and v"},
      {"mistral_a", {"--arch", "granitemoeshared"}, "the sliding window of layer 0"}};
  for (const auto& [source, flags, what] : cases) {
    const Upcycled made = upcycle(checkpoint_of(source), flags);
    EXPECT_EQ(made.code(), "upcycle.arch") << source;
    EXPECT_THAT(made.report["diagnostics"][0]["cause"].get<std::string>(), HasSubstr(what));
    expect_nothing_written(made.folder);
  }
}

TEST(UpcycleArchs, RequireWholeSharedExpertsInDeepseek) {
  const Upcycled made = upcycle(dense_deepseek(), {"--shared-width", "8", "--granularity", "2"});
  EXPECT_EQ(made.code(), "upcycle.arch") << made.outcome.out;
  EXPECT_THAT(
      made.report["diagnostics"][0]["cause"].get<std::string>(),
      HasSubstr("a shared expert of 8 units, which is not a multiple of the expert width 20"));
}

TEST(UpcycleArchs, RequireDenseLayersFirstInDeepseek) {
  const Upcycled made = upcycle(dense_deepseek(), {"--layers", "0"});
  EXPECT_EQ(made.code(), "upcycle.arch") << made.outcome.out;
}

}  // namespace
}  // namespace moec
