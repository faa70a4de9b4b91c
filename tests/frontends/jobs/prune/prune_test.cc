// moec prune: the pruned checkpoint computes what a masked export of its source computes, and is
// refused with a next step if it cannot.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "backends/formats/read_shard.h"
#include "backends/runtime/session/session.h"
#include "ir/experts/expert_profile.h"
#include "tests/frontends/cli/checkpoint_tensors.h"

namespace moec {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Pruned {
  Outcome outcome;
  nlohmann::json report;
  std::string folder;
  std::string code() const { return report.at("diagnostics").at(0).at("code"); }
};

Pruned prune(const std::string& source, const Words& flags) {
  const std::string folder = fresh_folder("pruned");
  std::filesystem::remove(folder);
  Words words = {"prune", source, "--out", folder, "--json"};
  words.insert(words.end(), flags.begin(), flags.end());
  Pruned result{run_command(words), {}, folder};
  result.report = nlohmann::json::parse(result.outcome.out);
  return result;
}

// Logits of the reference executor for a step of 8 tokens.
std::vector<float> logits_of(const std::string& checkpoint, Words flags) {
  const std::string out = fresh_folder("export");
  Words words = {"export", checkpoint, "--out", out, "--quiet", "--tokens", "8", "--context", "32"};
  words.insert(words.end(), flags.begin(), flags.end());
  expect_fine(run_command(words));
  auto session = Session::open(out, read_shard, {});
  EXPECT_TRUE(session.has_value()) << render(session.error());
  const auto logits = session->feed(std::vector<int64_t>{3, 1, 4, 1, 5, 9, 2, 6});
  EXPECT_TRUE(logits.has_value()) << render(logits.error());
  return logits->data;
}

struct MaskCase {
  const char *golden_case, *mask;
  double kept;  // share of the experts
};
// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const MaskCase& of, std::ostream* out) { *out << of.golden_case; }

class Prune : public testing::TestWithParam<MaskCase> {};

TEST_P(Prune, EqualsAMaskedExportInBits) {
  const std::string source = checkpoint_of(GetParam().golden_case);
  const Pruned made = prune(source, {"--expert-mask", GetParam().mask});
  ASSERT_EQ(made.outcome.exit_code, 0) << made.outcome.out;
  EXPECT_EQ(made.report["routing"], "masked");
  EXPECT_DOUBLE_EQ(made.report["bytes"]["experts"].get<double>(),
                   made.report["bytes_before"]["experts"].get<double>() * GetParam().kept);
  EXPECT_EQ(logits_of(made.folder, {}),
            logits_of(source, {"--expert-mask", made.report["expert_mask"]}));
}

// Separate and fused experts, groups with correction biases, biases of experts, MXFP4, int4, a text
// model inside of a larger one, and latent experts.
INSTANTIATE_TEST_SUITE_P(
    Families, Prune,
    testing::Values(MaskCase{"tinymoe", "L0:0-11;L1:4-15;L2:0-5,10-15;L3:1-12", 0.75},
                    MaskCase{"mixtral_a", "L0:0,2-4;L1:1-4", 0.8},
                    MaskCase{"qwen3_moe_a", "*:1-5", 5. / 6},
                    MaskCase{"qwen3_vl_moe_a", "*:0-2,4,5", 5. / 6},
                    MaskCase{"deepseek_v3_a", "*:0,2,3,4,7,8", 2. / 3},
                    MaskCase{"deepseek_v3_d", "*:0-3,5,6", 6. / 7},
                    MaskCase{"gpt_oss_a", "*:0,1,3,4", 0.8}, MaskCase{"gpt_oss_c", "*:1-4", 0.8},
                    MaskCase{"minimax_m2_a", "*:0-4", 5. / 6}),
    [](const auto& info) { return std::string(info.param.golden_case); });

// compressed-tensors reads the shapes, moec does not.
TEST(PruneTensors, KeepsShapesOfPackedMatrices) {
  const Pruned made = prune(checkpoint_of("deepseek_v3_d"), {"--expert-mask", "*:0-3,5,6"});
  ASSERT_EQ(made.outcome.exit_code, 0) << made.outcome.out;
  const std::string header = read_file(made.folder + "/model.safetensors");
  EXPECT_THAT(header, HasSubstr(".mlp.experts.5.down_proj.weight_shape"));
  EXPECT_THAT(header, Not(HasSubstr(".mlp.experts.6.")));
}

// A profile of mixtral_a in which the experts' scores ascend in one layer and descend in the other.
std::string profile_of_mixtral() {
  ExpertProfile profile;
  profile.model = "mixtral";
  profile.source = "checkpoint";
  profile.experts = 5;
  profile.top_k = 2;
  for (int64_t layer = 0; layer < 2; ++layer) {
    LayerProfile of{.layer = layer, .tokens = 10, .selections = {2, 4, 6, 8, 0}};
    of.mass = {1, 2, 3, 4, 0};
    of.saliency = {5, 4, 3, 2, 0};
    if (layer == 1) of.saliency = {0, 2, 3, 4, 5};
    profile.layers.push_back(of);
  }
  const std::string path = fresh_folder("profile") + "/profile.json";
  std::ofstream(path) << expert_profile_text(profile);
  return path;
}

TEST(PruneScores, KeepsTheBestExpertsPerLayer) {
  const std::string profile = profile_of_mixtral(), source = checkpoint_of("mixtral_a");
  const Pruned saliency = prune(source, {"--keep", "3", "--profile", profile, "--dry-run"});
  ASSERT_EQ(saliency.outcome.exit_code, 0) << saliency.outcome.out;
  EXPECT_EQ(saliency.report["expert_mask"], "L0:0-2;L1:2-4");
  const Pruned count =
      prune(source, {"--keep", "3", "--by", "count", "--profile", profile, "--dry-run"});
  EXPECT_EQ(count.report["expert_mask"], "L0-1:1-3");
  // Of experts 1 to 3, saliency also keeps 1 and 2 in layer 0, and 2 and 3 in layer 1.
  const auto& overlap = count.report["scores"][0];
  EXPECT_EQ(overlap["by"], "saliency");
  EXPECT_DOUBLE_EQ(overlap["same"], 2. / 3);
  EXPECT_EQ(overlap["fewest"], 2);
  EXPECT_DOUBLE_EQ(count.report["kept_selections"], 0.9);
  EXPECT_FALSE(std::filesystem::exists(count.folder));
}

TEST(PruneScores, KeepsTheLowerIndexOfTies) {
  ExpertProfile profile = *read_expert_profile(profile_of_mixtral());
  for (LayerProfile& layer : profile.layers) layer.saliency = {1, 1, 1, 1, 1};
  const std::string path = fresh_folder("tied") + "/profile.json";
  std::ofstream(path) << expert_profile_text(profile);
  const Pruned made =
      prune(checkpoint_of("mixtral_a"), {"--keep", "2", "--profile", path, "--dry-run"});
  EXPECT_EQ(made.report["expert_mask"], "L0-1:0-1");
}

TEST(PruneFolder, ContainsAllOtherFiles) {
  const CheckpointCopy copy("mixtral_a");
  copy.write("tokenizer.json", "{\"model\": {}}");
  copy.write("modeling_mine.py", "pass");
  copy.write("pytorch_model.bin", "old weights");
  std::filesystem::create_directory(copy.path("original"));
  const Pruned made = prune(copy.folder(), {"--expert-mask", "*:0-3"});
  ASSERT_EQ(made.outcome.exit_code, 0) << made.outcome.out;
  EXPECT_EQ(read_file(made.folder + "/modeling_mine.py"), "pass");
  EXPECT_EQ(read_file(made.folder + "/tokenizer.json"), copy.read("tokenizer.json"));
  EXPECT_FALSE(std::filesystem::exists(made.folder + "/pytorch_model.bin"));
  EXPECT_EQ(made.code(), "prune.not_copied");
  const auto config = nlohmann::json::parse(read_file(made.folder + "/config.json"));
  EXPECT_EQ(config["num_local_experts"], 4);
  EXPECT_EQ(config["moec_prune"]["kept"], "L0-1:0-3");
}

// Layers of multi-token prediction have experts without scores.
TEST(PruneFolder, LeavesOutLayersWithoutScores) {
  const CheckpointCopy copy("deepseek_v3_b");
  copy.edit_config([](auto& config) { config["num_nextn_predict_layers"] = 1; });
  const int64_t layers = nlohmann::json::parse(copy.read("config.json"))["num_hidden_layers"];
  DiskTensors tensors = read_tensors(copy);
  const std::string extra = "model.layers." + std::to_string(layers) + ".";
  tensors[extra + "mlp.experts.5.up_proj.weight"] = {"BF16", {2}, "abcd"};
  tensors[extra + "enorm.weight"] = {"BF16", {2}, "abcd"};
  write_tensors(copy.folder(), tensors);
  const Pruned made = prune(copy.folder(), {"--expert-mask", "*:0-4"});
  ASSERT_EQ(made.outcome.exit_code, 0) << made.outcome.out;
  EXPECT_EQ(made.code(), "prune.left_out");
  EXPECT_THAT(made.outcome.out, HasSubstr("2 tensors"));
  EXPECT_THAT(read_file(made.folder + "/model.safetensors"), Not(HasSubstr(extra + "enorm")));
  const auto config = nlohmann::json::parse(read_file(made.folder + "/config.json"));
  EXPECT_EQ(config["num_nextn_predict_layers"], 0);
}

TEST(PruneNotes, ReportsRoutingThatChanges) {
  const Pruned shares = prune(checkpoint_of("olmoe_a"), {"--expert-mask", "*:0-3"});
  EXPECT_EQ(shares.report["routing"], "inflated");
  EXPECT_EQ(shares.code(), "prune.inflated");
  // Biases are added to shares of a softmax before the selection.
  EXPECT_EQ(prune(checkpoint_of("ernie4_5_moe_a"), {"--expert-mask", "*:0-4"}).report["routing"],
            "inflated");
}

struct PruneRefusal {
  const char *name, *source;
  Words flags;
  const char* code;
};
// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const PruneRefusal& refused, std::ostream* out) { *out << refused.name; }

class PruneRefusals : public testing::TestWithParam<PruneRefusal> {};

TEST_P(PruneRefusals, ReportCodesAndNextSteps) {
  Words flags = GetParam().flags;
  for (std::string& word : flags)
    if (word == "PROFILE") word = profile_of_mixtral();
  const Pruned made = prune(checkpoint_of(GetParam().source), flags);
  EXPECT_EQ(made.outcome.exit_code, 2) << made.outcome.out;
  EXPECT_EQ(made.code(), GetParam().code) << made.outcome.out;
  EXPECT_NE(made.report["diagnostics"][0]["next_step"], "");
  EXPECT_FALSE(std::filesystem::exists(made.folder));
}

INSTANTIATE_TEST_SUITE_P(
    Options, PruneRefusals,
    testing::Values(
        PruneRefusal{"dense", "mistral_a", {"--expert-mask", "*:0"}, "prune.no_experts"},
        PruneRefusal{"all", "mixtral_a", {"--keep", "5", "--profile", "PROFILE"}, "prune.experts"},
        PruneRefusal{"whole_mask", "mixtral_a", {"--expert-mask", "*:0-4"}, "prune.experts"},
        PruneRefusal{"top_k", "mixtral_a", {"--keep", "1", "--profile", "PROFILE"}, "prune.top_k"},
        PruneRefusal{"score",
                     "mixtral_a",
                     {"--keep", "3", "--by", "norm", "--profile", "PROFILE"},
                     "prune.score"},
        PruneRefusal{
            "profile", "mixtral_b", {"--keep", "3", "--profile", "PROFILE"}, "profile.model"},
        PruneRefusal{"no_profile", "mixtral_a", {"--keep", "3"}, "cli.missing"},
        PruneRefusal{"counts", "mixtral_a", {"--expert-mask", "L0:0-3;L1:0-2"}, "prune.counts"},
        PruneRefusal{"groups", "deepseek_v3_a", {"--expert-mask", "*:0-7"}, "prune.counts"},
        PruneRefusal{"one_a_group", "nemotron_h_a", {"--expert-mask", "*:0,2,4"}, "prune.groups"},
        PruneRefusal{"images", "ernie4_5_vl_moe_a", {"--expert-mask", "*:0-3"}, "prune.tensor"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(PruneFolder, RejectsConfigsThatNameExperts) {
  const CheckpointCopy copy("mixtral_a");
  copy.edit_config([](auto& config) { config["transformers_version"] = "experts.3"; });
  EXPECT_EQ(prune(copy.folder(), {"--expert-mask", "*:0-3"}).code(), "prune.config");
}

}  // namespace
}  // namespace moec
