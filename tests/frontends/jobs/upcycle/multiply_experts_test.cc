// Multiplies the experts of MoE models.
#include <gtest/gtest.h>

#include "tests/frontends/jobs/upcycle/upcycle_cases.h"

namespace moec {
namespace {

class MultipliedExperts : public testing::TestWithParam<const char*> {};

// Covers softmax with and without normalized weights, over selected experts, and with a correction
// bias. Covers sigmoids, weights on the input, every kind of attention, and experts stored
// separately, fused and transposed.
TEST_P(MultipliedExperts, MatchTheSourcesLogits) {
  const Upcycled made =
      upcycle(checkpoint_of(GetParam()), {"--from-moe", "--multiply", "2", "--verify"});
  EXPECT_EQ(made.outcome.exit_code, 0) << made.outcome.out;
  EXPECT_EQ(made.kind(), "exact");
  EXPECT_LT(made.error(), 1e-5);
  EXPECT_EQ(made.report["comparison"]["whole_groups"], 1.0);
}

INSTANTIATE_TEST_SUITE_P(Families, MultipliedExperts,
                         testing::Values("mixtral_a", "qwen2_moe_a", "qwen3_moe_b", "olmoe_a",
                                         "granitemoe_a", "granitemoeshared_b", "ernie4_5_moe_a",
                                         "deepseek_v2_a", "deepseek_v3_b", "gpt_oss_a", "gemma4_b",
                                         "llama4_text_a", "lfm2_moe_b", "hunyuan_v1_moe_a",
                                         "granitemoehybrid_a", "openai_privacy_filter_a"),
                         [](const auto& info) { return std::string(info.param); });

// Removes the router groups of the case, because copies would be ranked differently within groups.
TEST(MultipliedExperts, KeepOneLatentProjection) {
  const CheckpointCopy copy("nemotron_h_c", "latent");
  copy.edit_config(
      [](CheckpointCopy::Json& config) { config["n_group"] = config["topk_group"] = 1; });
  const Upcycled made = upcycle(copy.folder(), {"--from-moe", "--multiply", "2", "--verify"});
  EXPECT_EQ(made.outcome.exit_code, 0) << made.outcome.out;
  EXPECT_EQ(made.kind(), "exact");
  EXPECT_LT(made.error(), 1e-5);
}

TEST(MultipliedExperts, MultiplyExpertsAndTopK) {
  const Upcycled made =
      upcycle(checkpoint_of("mixtral_a"), {"--from-moe", "--multiply", "3", "--verify"});
  EXPECT_LT(made.error(), 1e-5);
  const auto before = nlohmann::json::parse(read_file(checkpoint_of("mixtral_a") + "/config.json"));
  EXPECT_EQ(made.report["experts"], 3 * before["num_local_experts"].get<int>());
  EXPECT_EQ(made.report["top_k"], 3 * before["num_experts_per_tok"].get<int>());
}

TEST(MultipliedExperts, AreInexactWithSmallerTopK) {
  const std::string source = checkpoint_of("mixtral_a");
  const Words flags = {"--from-moe", "--multiply", "2", "--verify"};
  for (const Words& more : {Words{"--top-k", "2"}, Words{"--noise", "0.5"}}) {
    Words words = flags;
    words.insert(words.end(), more.begin(), more.end());
    const Upcycled made = upcycle(source, words);
    EXPECT_EQ(made.kind(), "inexact") << made.outcome.out;
    EXPECT_EQ(made.outcome.exit_code, 1);
  }
}

// The first copy of an expert keeps its router row.
TEST(MultipliedExperts, AddNoiseToFurtherCopies) {
  const Upcycled plain = upcycle(checkpoint_of("mixtral_a"), {"--from-moe", "--multiply", "2"}),
                 noisy = upcycle(checkpoint_of("mixtral_a"),
                                 {"--from-moe", "--multiply", "2", "--noise", "0.5"}, "noisy");
  const CheckpointCopy copies[] = {CheckpointCopy("mixtral_a", "a"),
                                   CheckpointCopy("mixtral_a", "b")};
  copies[0].write("model.safetensors", read_file(plain.folder + "/model.safetensors"));
  copies[1].write("model.safetensors", read_file(noisy.folder + "/model.safetensors"));
  const DiskTensors before = read_tensors(copies[0]), after = read_tensors(copies[1]);
  size_t differing = 0;
  for (const auto& [name, tensor] : before) differing += after.at(name).bytes != tensor.bytes;
  EXPECT_EQ(differing, 2u);  // the routers of two layers
  const std::string name = "model.layers.0.block_sparse_moe.gate.weight";
  const DiskTensor &a = before.at(name), &b = after.at(name);
  const size_t row = a.bytes.size() / static_cast<size_t>(a.shape[0]);
  for (size_t e = 0; e < static_cast<size_t>(a.shape[0]); ++e)
    EXPECT_EQ(a.bytes.substr(e * row, row) == b.bytes.substr(e * row, row), e % 2 == 0) << e;
}

TEST(MultipliedExperts, RejectUnsupportedModels) {
  for (const auto& [source, flags, code] : std::vector<std::tuple<std::string, Words, std::string>>{
           {"llama_b", {"--multiply", "2"}, "upcycle.not_moe"},
           {"zaya_a", {"--multiply", "2"}, "upcycle.unsupported_router"},
           {"phimoe_a", {"--multiply", "2"}, "upcycle.unsupported_router"},
           {"gpt_oss_c", {"--multiply", "2"}, "upcycle.quantised"},
           {"gemma4_a", {"--multiply", "2"}, "upcycle.from_moe"},
           {"mixtral_a", {"--multiply", "2", "--granularity", "2"}, "upcycle.from_moe"},
           {"mixtral_a", {"--multiply", "2", "--top-k", "99"}, "upcycle.top_k"},
           {"mixtral_a", {}, "cli.missing"}}) {
    Words words = {"--from-moe"};
    words.insert(words.end(), flags.begin(), flags.end());
    const Upcycled made = upcycle(checkpoint_of(source), words);
    EXPECT_EQ(made.outcome.exit_code, 2) << source;
    EXPECT_EQ(made.code(), code) << made.outcome.out;
    EXPECT_FALSE(std::filesystem::exists(made.folder)) << source;
  }
}

}  // namespace
}  // namespace moec
