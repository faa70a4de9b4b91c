// Measures each row of the upcycling algebra: runs both models in f32 and compares the measured
// error with the predicted class.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/frontends/jobs/upcycle/upcycle_cases.h"

namespace moec {
namespace {

constexpr double kExactError = 1e-5;

struct Row {
  const char* name;
  const char* source;  // a golden case, "nemotron" or "deepseek"
  Words flags;
  const char* kind;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

std::string folder_of(const std::string& source) {
  if (source == "nemotron") return dense_nemotron();
  return source == "deepseek" ? dense_deepseek() : checkpoint_of(source);
}

class UpcycleExactness : public testing::TestWithParam<Row> {};

TEST_P(UpcycleExactness, MatchesTheAlgebra) {
  const Row& row = GetParam();
  Words flags = {"--verify", "--dtype", "f32"};
  flags.insert(flags.end(), row.flags.begin(), row.flags.end());
  const Upcycled made = upcycle(folder_of(row.source), flags);
  ASSERT_TRUE(made.report.contains("comparison")) << made.outcome.out;
  EXPECT_EQ(made.kind(), row.kind);
  const bool is_exact = std::string(row.kind) != "inexact";
  EXPECT_EQ(made.outcome.exit_code, is_exact ? 0 : 1) << made.outcome.out;
  if (is_exact)
    EXPECT_LT(made.error(), kExactError);
  else
    EXPECT_GT(made.error(), 10 * kExactError);
  EXPECT_EQ(made.code(), is_exact ? "" : "upcycle.verify");
  EXPECT_GT(made.report["comparison"]["choices"], 0);
}

const char* const kExactKind = "exact";
const char* const kUniformKind = "exact for a uniform router";
const char* const kInexactKind = "inexact";

// Rows with normalized weights, by E, T and G.
const Row kGroups[] = {
    {"E8_T1", "llama_b", {"--experts", "8", "--top-k", "1"}, kExactKind},
    {"E8_T2", "llama_b", {"--experts", "8", "--top-k", "2"}, kExactKind},
    {"E6_T2", "mistral_a", {"--experts", "6", "--top-k", "2"}, kExactKind},
    {"E8_T2_G2", "mistral_b", {"--experts", "8", "--top-k", "2", "--granularity", "2"}, kExactKind},
    {"E8_T4_G2", "llama_b", {"--experts", "8", "--top-k", "4", "--granularity", "2"}, kExactKind},
    {"E9_T3_G3", "llama_b", {"--experts", "9", "--top-k", "3", "--granularity", "3"}, kExactKind},
    {"E16_T8_G4", "llama_b", {"--experts", "16", "--top-k", "8", "--granularity", "4"}, kExactKind},
    {"sqrt",
     "llama_b",
     {"--experts", "8", "--top-k", "2", "--granularity", "2", "--scale", "sqrt-up-down"},
     kExactKind},
    {"cube_root_of_swiglu",
     "llama_b",
     {"--experts", "8", "--top-k", "2", "--granularity", "2", "--scale", "megatron"},
     kInexactKind},
    {"cube_root_of_one",
     "llama_b",
     {"--experts", "8", "--top-k", "2", "--scale", "megatron"},
     kExactKind},
    {"independent_rows",
     "llama_b",
     {"--experts", "8", "--top-k", "2", "--granularity", "2", "--router", "random:1"},
     kInexactKind},
    {"independent_rows_of_copies",
     "llama_b",
     {"--experts", "8", "--top-k", "2", "--router", "random:1"},
     kExactKind},
    {"zero_router",
     "llama_b",
     {"--experts", "8", "--top-k", "2", "--granularity", "2", "--router", "zero"},
     kUniformKind},
    {"partition_of_all_parts", "llama_b", {"--init", "partition", "--experts", "4"}, kExactKind},
    {"partition_of_some_parts",
     "llama_b",
     {"--init", "partition", "--experts", "4", "--top-k", "2"},
     kInexactKind},
    {"drop", "llama_b", {"--init", "drop:0.5"}, kInexactKind},
    {"noise", "llama_b", {"--noise", "0.05"}, kInexactKind},
};

const Row kUnnormalised[] = {
    {"uniform",
     "qwen3_a",
     {"--unnormalised", "--router", "zero", "--experts", "8", "--top-k", "4", "--granularity", "2"},
     kUniformKind},
    {"uniform_copies",
     "qwen3_a",
     {"--unnormalised", "--router", "zero", "--experts", "8", "--top-k", "2"},
     kUniformKind},
    {"drawn",
     "qwen3_a",
     {"--unnormalised", "--router", "virtual:1", "--experts", "8", "--top-k", "2"},
     kInexactKind},
    {"all_picked",
     "qwen3_a",
     {"--unnormalised", "--router", "virtual:1", "--experts", "4", "--top-k", "4", "--granularity",
      "2"},
     kExactKind},
    {"sigmoids_of_zero",
     "deepseek",
     {"--unnormalised", "--router", "zero", "--experts", "8", "--top-k", "4", "--granularity", "2"},
     kUniformKind},
};

const Row kArchs[] = {
    {"qwen3_moe", "qwen3_a", {"--layers", "1", "--granularity", "4", "--top-k", "4"}, kExactKind},
    {"qwen2_moe", "qwen2_a", {"--arch", "qwen2_moe", "--layers", "0,2"}, kExactKind},
    {"qwen2_moe_windows", "qwen2_b", {"--granularity", "2"}, kExactKind},
    {"qwen2_moe_gated",
     "qwen2_a",
     {"--arch", "qwen2_moe", "--shared-width", "20", "--granularity", "2"},
     kInexactKind},
    {"granite", "qwen2_c", {"--arch", "granitemoeshared"}, kExactKind},
    {"granite_shared",
     "llama_b",
     {"--arch", "granitemoeshared", "--shared-width", "12", "--granularity", "3", "--top-k", "6"},
     kExactKind},
    {"deepseek",
     "deepseek",
     {"--shared-width", "16", "--granularity", "2", "--router", "virtual:1"},
     kExactKind},
    {"deepseek_last_layer", "deepseek", {"--layers", "2"}, kExactKind},
    {"nemotron", "nemotron", {"--granularity", "2", "--router", "virtual:1"}, kExactKind},
    {"nemotron_shared", "nemotron", {"--shared-width", "8", "--granularity", "4"}, kExactKind},
    {"nemotron_cube_root",
     "nemotron",
     {"--granularity", "2", "--top-k", "4", "--scale", "megatron"},
     kExactKind},
    {"nemotron_square_root",
     "nemotron",
     {"--granularity", "2", "--top-k", "4", "--scale", "sqrt-up-down"},
     kInexactKind},
};

std::string name_of(const testing::TestParamInfo<Row>& row) { return row.param.name; }

INSTANTIATE_TEST_SUITE_P(Groups, UpcycleExactness, testing::ValuesIn(kGroups), name_of);
INSTANTIATE_TEST_SUITE_P(Unnormalised, UpcycleExactness, testing::ValuesIn(kUnnormalised), name_of);
INSTANTIATE_TEST_SUITE_P(Archs, UpcycleExactness, testing::ValuesIn(kArchs), name_of);

// ---- Element types -----------------------------------------------------------------------------

TEST(UpcycleTypes, KeepPowersOfTwoExact) {
  const Upcycled made =
      upcycle(checkpoint_of("mistral_a"), {"--granularity", "4", "--top-k", "4", "--verify"});
  EXPECT_EQ(made.outcome.exit_code, 0) << made.outcome.out;
  EXPECT_EQ(made.kind(), "exact");
  EXPECT_LT(made.error(), kExactError);
}

TEST(UpcycleTypes, ReportRoundingForOtherFactors) {
  const Words flags = {"--granularity", "3", "--top-k", "3", "--experts", "6", "--verify"};
  const Upcycled made = upcycle(checkpoint_of("llama_b"), flags);
  EXPECT_EQ(made.kind(), "exact but for rounding");
  EXPECT_EQ(made.outcome.exit_code, 0);
  EXPECT_GT(made.error(), kExactError);
  EXPECT_LT(made.error(), 0.05);
  Words less = flags;
  less.insert(less.end(), {"--max-error", "1e-5"});
  EXPECT_EQ(upcycle(checkpoint_of("llama_b"), less, "less").outcome.exit_code, 1);
}

// ---- Seeds -------------------------------------------------------------------------------------

TEST(UpcycleSeeds, DetermineTheBytes) {
  const Words flags = {"--noise", "0.01", "--init", "drop:0.25"};
  const auto bytes_of = [&](const char* seed, const char* name) {
    Words words = flags;
    words.insert(words.end(), {"--seed", seed});
    const Upcycled made = upcycle(checkpoint_of("mistral_a"), words, name);
    return read_file(made.folder + "/model.safetensors");
  };
  const std::string first = bytes_of("1", "a");
  EXPECT_TRUE(first == bytes_of("1", "b"));
  EXPECT_FALSE(first == bytes_of("2", "c"));
}

// The division into files does not change the tensors.
TEST(UpcycleSeeds, KeepTensorsForAnyFileSize) {
  const Words flags = {"--noise", "0.01", "--experts", "4"};
  Words cut = flags;
  cut.insert(cut.end(), {"--max-shard-mb", "40KiB"});
  const Upcycled whole = upcycle(checkpoint_of("mistral_a"), flags),
                 parts = upcycle(checkpoint_of("mistral_a"), cut, "parts");
  ASSERT_GT(parts.report["files"].size(), whole.report["files"].size() + 2);
  const auto values = [](const Upcycled& made) {
    const std::string out = fresh_folder("values");
    expect_fine(run_command({"export", made.folder, "--out", out, "--quiet"}));
    return payload_of(out);
  };
  EXPECT_EQ(values(whole), values(parts));
}

// The config of a dense model may have this key even if no layer has experts.
TEST(UpcycledNemotron, OmitsTheLatentSizeOfMlps) {
  const std::string source = dense_nemotron();
  const std::string path = source + "/config.json";
  auto config = nlohmann::json::parse(read_file(path));
  config["moe_latent_size"] = 16;
  std::ofstream(path) << config;
  const Upcycled made = upcycle(source, {"--granularity", "2", "--verify"});
  EXPECT_EQ(made.outcome.exit_code, 0) << made.outcome.out;
  EXPECT_LT(made.error(), 1e-5);
  const auto after = nlohmann::json::parse(read_file(made.folder + "/config.json"));
  EXPECT_FALSE(after.contains("moe_latent_size"));
}

}  // namespace
}  // namespace moec
