// Configs of ERNIE-4.5-VL, and entries of lists in configs.
#include "models/tensors/ignored_tensors.h"
#include "tests/frontends/sources/hf/layer_lists.h"
#include "tests/frontends/sources/hf/small_config.h"

namespace moec {
namespace {

const char* const kErnieVl = "ernie4_5_vl_moe_text";

std::string small_ernie(const std::string& members) {
  return fmt::format(R"("hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4,
      "num_key_value_heads": 2, "vocab_size": 50, "max_position_embeddings": 64,
      "moe_num_experts": 6, "moe_k": 2, "intermediate_size": 24{})",
                     members);
}

Result<HfConfig> read_ernie(const std::string& members) {
  return read_config(fmt::format(R"({{"model_type": "{}", {}}})", kErnieVl, small_ernie(members)),
                     "config.json");
}

ModelConfig ernie(const std::string& members = "") {
  Result<HfConfig> config = read_ernie(members);
  EXPECT_TRUE(config.has_value()) << render(config.error());
  return config ? std::move(config->model) : ModelConfig{};
}

TEST(ErnieVl, ReadsRouting) {
  const ModelConfig model = ernie(R"(, "moe_norm_min": 1e-6)");
  const Router wanted{
      .score = Score::softmax, .top_k = 2, .renorm = Renorm::max_eps, .eps = 1e-6, .scale = 1};
  EXPECT_EQ(model.moe.routing, wanted);
  EXPECT_TRUE(model.moe.choice_bias);
  EXPECT_TRUE(model.head.tied);
  EXPECT_EQ(ernie().moe.routing.eps, 1e-12);
}

// The second entry is the width of the image experts.
TEST(ErnieVl, UsesTheWidthOfTextExperts) {
  const ModelConfig model = ernie(R"(, "moe_intermediate_size": [12, 8])");
  EXPECT_EQ(model.moe.expert_ff, 12);
  EXPECT_EQ(model.moe.shared_ff, 24) << "of two shared experts";
  EXPECT_EQ(ernie().moe.expert_ff, 1536);
  EXPECT_EQ(
      ernie(R"(, "moe_intermediate_size": [12, 8], "moe_num_shared_experts": 0)").moe.shared_ff, 0);
  expect_error(read_ernie(R"(, "moe_intermediate_size": 12)"), "hf.config.type",
               "\"moe_intermediate_size\" must be an object or a list, found an integer");
  expect_error(read_ernie(R"(, "moe_intermediate_size": [12, 8, 4])"), "hf.config.unknown_key",
               "\"moe_intermediate_size.2\" (4)");
  expect_error(read_ernie(R"(, "moe_intermediate_size": ["12", 8])"), "hf.config.type",
               "\"moe_intermediate_size.0\" must be an integer");
}

TEST(ErnieVl, ReadsMoeLayersFromTypes) {
  EXPECT_EQ(moe_layers(ernie()), (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(moe_layers(ernie(R"(, "mlp_layer_types": ["sparse", "dense", "sparse", "dense"])")),
            (std::vector<bool>{true, false, true, false}));
}

TEST(ErnieVl, OmitsBiasesFromExperts) {
  const ModelConfig model = ernie(R"(, "use_bias": true)");
  EXPECT_TRUE(model.attention.qkv_bias && model.attention.o_bias && model.mlp.bias);
  EXPECT_FALSE(model.moe.expert_biases || model.moe.router_map.bias || model.head.bias);
}

// ERNIE-4.5-VL's rotation supports neither scaling nor a partial share.
TEST(ErnieVl, UsesAPlainRotation) {
  const RopeConfig rope = ernie(R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 1000,
          "mrope_section": [1, 1, 2]})")
                              .attention.rope;
  EXPECT_EQ(rope.style, RopeStyle::interleaved);
  EXPECT_EQ(rope.theta, 1000);
  EXPECT_EQ(rope.dims, 8);
  EXPECT_EQ(ernie().attention.rope.theta, 5e5);
  expect_error(read_ernie(R"(, "rope_scaling": {"rope_type": "linear", "factor": 2})"),
               "hf.config.unsupported_value", "the rope type is \"linear\"");
  expect_error(read_ernie(R"(, "rope_parameters": {"rope_type": "default",
      "partial_rotary_factor": 0.5})"),
               "hf.config.unsupported_value", "partial_rotary_factor");
}

// Image experts are numbered after the text experts.
TEST(ErnieVl, OmitsImageExperts) {
  const Result<HfConfig> config = read_config(
      fmt::format(R"({{"model_type": "ernie4_5_vl_moe", "text_config": {{{}}}}})", small_ernie("")),
      "config.json");
  ASSERT_TRUE(config.has_value()) << render(config.error());
  auto is_ignored = [&](const std::string& name) {
    return ignoring_pattern(config->model, name) != nullptr;
  };
  for (const char* layers : {"model.layers.1.", "model.language_model.layers.1."}) {
    const std::string experts = std::string(layers) + "mlp.experts.";
    EXPECT_FALSE(is_ignored(experts + "5.up_proj.weight"));
    EXPECT_TRUE(is_ignored(experts + "6.up_proj.weight"));
    EXPECT_TRUE(is_ignored(experts + "11.up_proj.weight"));
    EXPECT_FALSE(is_ignored(experts + "12.up_proj.weight"));
    EXPECT_FALSE(is_ignored(std::string(layers) + "mlp.gate.weight"));
    EXPECT_TRUE(is_ignored(std::string(layers) + "mlp.gate.weight_1"));
  }
}

}  // namespace
}  // namespace moec
