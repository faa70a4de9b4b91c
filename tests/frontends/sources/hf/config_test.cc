#include "frontends/sources/hf/config.h"

#include <fmt/format.h>

#include "models/tensors/rope.h"
#include "tests/frontends/sources/hf/folder.h"
#include "tests/frontends/sources/hf/layer_lists.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

// Published configs of transformers version 4, reduced to the keys that matter here.
const char* const kMixtral = R"({
  "architectures": ["MixtralForCausalLM"],
  "model_type": "mixtral",
  "hidden_size": 4096,
  "intermediate_size": 14336,
  "num_hidden_layers": 32,
  "num_attention_heads": 32,
  "num_key_value_heads": 8,
  "num_local_experts": 8,
  "num_experts_per_tok": 2,
  "vocab_size": 32000,
  "max_position_embeddings": 32768,
  "rms_norm_eps": 1e-05,
  "rope_theta": 1000000.0,
  "sliding_window": null,
  "hidden_act": "silu",
  "tie_word_embeddings": false,
  "router_aux_loss_coef": 0.02,
  "output_router_logits": false,
  "attention_dropout": 0.0,
  "bos_token_id": 1,
  "eos_token_id": 2,
  "initializer_range": 0.02,
  "torch_dtype": "bfloat16",
  "transformers_version": "4.36.0.dev0",
  "use_cache": true
})";

const char* const kQwen3 = R"({
  "model_type": "qwen3_moe",
  "attention_bias": false,
  "decoder_sparse_step": 1,
  "head_dim": 128,
  "hidden_act": "silu",
  "hidden_size": 2048,
  "intermediate_size": 5472,
  "max_position_embeddings": 262144,
  "max_window_layers": 28,
  "mlp_only_layers": [],
  "moe_intermediate_size": 768,
  "norm_topk_prob": true,
  "num_attention_heads": 32,
  "num_experts": 128,
  "num_experts_per_tok": 8,
  "num_hidden_layers": 48,
  "num_key_value_heads": 4,
  "qkv_bias": false,
  "rms_norm_eps": 1e-06,
  "rope_scaling": null,
  "rope_theta": 10000000,
  "shared_expert_intermediate_size": 0,
  "sliding_window": null,
  "tie_word_embeddings": false,
  "use_qk_norm": true,
  "use_sliding_window": false,
  "vocab_size": 151936
})";

const char* const kQwen2 = R"({
  "model_type": "qwen2_moe",
  "hidden_act": "silu",
  "hidden_size": 2048,
  "intermediate_size": 5632,
  "max_position_embeddings": 8192,
  "max_window_layers": 3,
  "num_attention_heads": 16,
  "num_hidden_layers": 6,
  "num_key_value_heads": 16,
  "rms_norm_eps": 1e-06,
  "rope_theta": 1000000.0,
  "sliding_window": 32768,
  "use_sliding_window": false,
  "tie_word_embeddings": false,
  "vocab_size": 151936,
  "decoder_sparse_step": 1,
  "moe_intermediate_size": 1408,
  "shared_expert_intermediate_size": 5632,
  "num_experts_per_tok": 4,
  "num_experts": 60,
  "norm_topk_prob": false
})";

const char* const kOlmoe = R"({
  "model_type": "olmoe",
  "attention_bias": false,
  "clip_qkv": null,
  "hidden_act": "silu",
  "hidden_size": 2048,
  "intermediate_size": 1024,
  "max_position_embeddings": 4096,
  "norm_topk_prob": false,
  "num_attention_heads": 16,
  "num_experts": 64,
  "num_experts_per_tok": 8,
  "num_hidden_layers": 16,
  "rope_scaling": null,
  "rope_theta": 10000.0,
  "tie_word_embeddings": false,
  "vocab_size": 50304
})";

std::string with(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// Inserts a member before all others.
std::string plus(const std::string& text, const std::string& member) {
  return with(text, "{", "{" + member + ",");
}

ModelConfig good(const std::string& text) {
  auto config = read_config(text, "config.json");
  EXPECT_TRUE(config.has_value()) << render(config.error());
  return config ? std::move(config->model) : ModelConfig{};
}

void expect_refused(const std::string& text, const std::string& code, const std::string& part) {
  expect_error(read_config(text, "config.json"), code, part);
}

std::vector<int64_t> windows(const ModelConfig& model) {
  std::vector<int64_t> all;
  for (const LayerConfig& layer : model.layers) all.push_back(layer.window);
  return all;
}

// ---- the families ------------------------------------------------------------------------------

TEST(Config, ReadsMixtral) {
  ModelConfig model = good(kMixtral);
  EXPECT_EQ(model.family, "mixtral");
  EXPECT_EQ(model.layers.size(), 32u);
  EXPECT_EQ(model.attention.head_dim, 128) << "d / heads if head_dim is missing";
  EXPECT_DOUBLE_EQ(model.attention.scale, 1 / std::sqrt(128.0));
  EXPECT_EQ(model.attention.rope.theta, 1e6);
  EXPECT_EQ(model.attention.rope.dims, 128);
  EXPECT_EQ(model.moe.experts, 8);
  EXPECT_EQ(model.moe.expert_ff, 14336);
  EXPECT_EQ(model.moe.routing.top_k, 2);
  EXPECT_EQ(model.moe.routing.renorm, Renorm::sum) << "always on";
  EXPECT_EQ(model.moe.shared_ff, 0);
  EXPECT_EQ(windows(model), std::vector<int64_t>(32, 0));
  EXPECT_EQ(model.names("expert_down", 3, 7),
            "model.layers.3.block_sparse_moe.experts.7.w2.weight");
  EXPECT_FALSE(model.names.has("experts_gate_up"));
}

TEST(Config, AppliesMixtralWindowsToAllLayers) {
  ModelConfig model = good(with(kMixtral, "\"sliding_window\": null", "\"sliding_window\": 4096"));
  EXPECT_EQ(windows(model), std::vector<int64_t>(32, 4096));
}

TEST(Config, ReadsQwen3WithStrayKeys) {
  ModelConfig model = good(kQwen3);
  EXPECT_EQ(model.attention.qk_norm, QkNormWidth::per_head);
  EXPECT_EQ(model.attention.head_dim, 128);
  EXPECT_EQ(model.moe.routing.renorm, Renorm::sum);
  EXPECT_EQ(model.mlp.ff, 5472);
  EXPECT_FALSE(model.attention.qkv_bias);
  EXPECT_EQ(moe_layers(model), std::vector<bool>(48, true));
  expect_refused(with(kQwen3, "\"qkv_bias\": false", "\"qkv_bias\": true"),
                 "hf.config.unsupported_value",
                 "\"qkv_bias\" is true; for the family qwen3_moe it must be false");
  expect_refused(with(kQwen3, "\"use_qk_norm\": true", "\"use_qk_norm\": false"),
                 "hf.config.unsupported_value", "must be true");
}

TEST(Config, AppliesEnabledQwen3WindowsToLayers) {
  std::string text = with(kQwen3, "\"use_sliding_window\": false", "\"use_sliding_window\": true");
  EXPECT_EQ(windows(good(text)), std::vector<int64_t>(48, 0)) << "null: none";
  text = with(text, "\"sliding_window\": null", "\"sliding_window\": 100");
  EXPECT_EQ(windows(good(text)), std::vector<int64_t>(48, 100));
}

TEST(Config, DerivesMissingQwen3HeadDim) {
  EXPECT_EQ(good(with(kQwen3, "\"head_dim\": 128,", "")).attention.head_dim, 64);
  EXPECT_EQ(good(with(kQwen3, "\"head_dim\": 128", "\"head_dim\": null")).attention.head_dim, 64);
  expect_refused(with(with(kQwen3, "\"head_dim\": 128,", ""), "\"num_attention_heads\": 32",
                      "\"num_attention_heads\": 24"),
                 "hf.config.range", "\"head_dim\" is 85.3");
}

TEST(Config, ReadsQwen2) {
  ModelConfig model = good(kQwen2);
  EXPECT_TRUE(model.attention.qkv_bias) << "enabled by default";
  EXPECT_FALSE(model.attention.o_bias);
  EXPECT_EQ(model.attention.qk_norm, QkNormWidth::none);
  EXPECT_EQ(model.moe.shared_ff, 5632);
  EXPECT_TRUE(model.moe.shared_gated);
  EXPECT_EQ(model.moe.routing.renorm, Renorm::none);
  EXPECT_EQ(windows(model), std::vector<int64_t>(6, 0)) << "sliding_window is disabled";
  EXPECT_FALSE(good(plus(kQwen2, "\"qkv_bias\": false")).attention.qkv_bias);
}

TEST(Config, ReadsQwen2Windows) {
  std::string text = with(kQwen2, "\"use_sliding_window\": false", "\"use_sliding_window\": true");
  text = with(text, "32768", "64");
  EXPECT_EQ(windows(good(text)), (std::vector<int64_t>{64, 0, 64, 0, 0, 0}))
      << "even layers below max_window_layers";
  std::string listed = plus(text, R"("layer_types": ["full_attention", "sliding_attention",
      "full_attention", "full_attention", "full_attention", "sliding_attention"])");
  EXPECT_EQ(windows(good(listed)), (std::vector<int64_t>{0, 64, 0, 0, 0, 64}));
  expect_refused(with(listed, "\"use_sliding_window\": true", "\"use_sliding_window\": false"),
                 "hf.config.window", "layer 1 has a sliding window, but its width is not set");
  expect_refused(plus(text, "\"layer_types\": [\"full_attention\"]"), "hf.config.layer_types",
                 "1 entries for 6 layers");
  expect_refused(with(listed, "sliding_attention", "linear_attention"),
                 "hf.config.unknown_layer_type",
                 "unknown layer type \"linear_attention\"; known: full_attention, "
                 "sliding_attention");
}

TEST(Config, ReadsDenseLayers) {
  std::string text = with(kQwen2, "\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 2");
  EXPECT_EQ(moe_layers(good(text)), (std::vector<bool>{false, true, false, true, false, true}));
  text = plus(text, "\"mlp_only_layers\": [1, 4]");
  EXPECT_EQ(moe_layers(good(text)), (std::vector<bool>{false, false, false, true, false, true}));
}

TEST(Config, ReadsOlmoe) {
  ModelConfig model = good(kOlmoe);
  EXPECT_EQ(model.attention.kv_heads, 16) << "all heads by default";
  EXPECT_EQ(model.attention.qk_norm, QkNormWidth::full);
  EXPECT_EQ(model.norm.eps, 1e-5);
  EXPECT_EQ(model.attention.scaling.clip_qkv, std::nullopt);
  EXPECT_EQ(model.moe.expert_ff, 1024);
  EXPECT_EQ(model.moe.routing.renorm, Renorm::none);
  model = good(with(kOlmoe, "\"clip_qkv\": null", "\"clip_qkv\": 8"));
  EXPECT_EQ(model.attention.scaling.clip_qkv, 8);
  model = good(with(kOlmoe, "\"attention_bias\": false", "\"attention_bias\": true"));
  EXPECT_TRUE(model.attention.qkv_bias && model.attention.o_bias);
}

// ---- aliases, defaults, conflicts --------------------------------------------------------------

TEST(Config, ReadsAliasesOfTheExpertCount) {
  EXPECT_EQ(good(with(kQwen3, "num_experts\"", "num_local_experts\"")).moe.experts, 128);
  EXPECT_EQ(good(plus(kQwen3, "\"num_local_experts\": 128")).moe.experts, 128);
  expect_refused(plus(kQwen3, "\"num_local_experts\": 64"), "hf.config.conflict",
                 "\"num_experts\" is 128 and \"num_local_experts\" is 64");
}

// Most keys have a default in the config class; head_dim of this family has none.
TEST(Config, NamesMissingKeysAndAliases) {
  expect_refused(R"({"model_type": "hunyuan_v1_moe"})", "hf.config.missing_key",
                 "there is no key for head_dim; the family hunyuan_v1_moe reads: head_dim, "
                 "attention_head_dim");
}

TEST(Config, RejectsUnknownKeys) {
  auto config = read_config(plus(kMixtral, "\"attn_logit_softcapping\": 50.0"), "c/config.json");
  expect_error(config, "hf.config.unknown_key",
               "the key \"attn_logit_softcapping\" (50) is not known to the family mixtral");
  expect_error(config, "hf.config.unknown_key", "pass --ignore-key attn_logit_softcapping");
  EXPECT_EQ(config.error()[0].place.file, "c/config.json");
  EXPECT_EQ(config.error()[0].place.line, 1u);
  expect_refused(with(kQwen3, "\"norm_topk_prob\"", "\"norm_topk_probs\""), "hf.config.unknown_key",
                 "(did you mean 'norm_topk_prob'?)");
  expect_refused(plus(kOlmoe, "\"sliding_window\": 64"), "hf.config.unknown_key",
                 "\"sliding_window\"");
}

TEST(Config, IgnoresUnknownNullKeys) { good(plus(kMixtral, "\"quantization_config\": null")); }

TEST(Config, AcceptsKeysOfOtherTools) {
  for (const char* key :
       {R"("transformers.js_config": {"dtype": "q4"})", R"("unsloth_version": "2025.1")",
        R"("is_llama_config": true)", R"("unk_token_id": 0)", R"("rope_interleaved": false)"})
    EXPECT_TRUE(read_config(plus(kOlmoe, key), "config.json")) << key;
  expect_refused(plus(kOlmoe, "\"rope_interleaved\": true"), "hf.config.unsupported_value",
                 "rope_interleaved");
  expect_refused(plus(kOlmoe, "\"other.js_config\": 1"), "hf.config.unknown_key", "other");
}

TEST(Config, ReportsAllFindingsAtOnce) {
  std::string text =
      plus(with(kMixtral, "\"vocab_size\": 32000", "\"vocab_size\": 0"), "\"odd\": 1");
  auto config = read_config(text, "config.json");
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(config.error().size(), 2u) << render(config.error());
}

// ---- values ------------------------------------------------------------------------------------

TEST(Config, RejectsUnknownActivations) {
  expect_refused(with(kMixtral, "\"silu\"", "\"gelu\""), "hf.config.unknown_activation",
                 "unknown activation \"gelu\" in \"hidden_act\"; known: silu");
  good(with(kMixtral, "\"silu\"", "\"swish\""));
}

TEST(Config, RejectsUnknownScoringFunctions) {
  expect_refused(plus(kQwen3, "\"scoring_func\": \"sparsemax\""), "hf.config.unknown_score",
                 "unknown scoring function \"sparsemax\" in \"scoring_func\"; known: softmax, "
                 "sigmoid, softmax_selected");
  expect_refused(plus(kQwen3, "\"scoring_func\": \"sigmoid\""), "hf.config.unsupported_value",
                 "\"scoring_func\" is \"sigmoid\"; for the family qwen3_moe it must be softmax");
  good(plus(kQwen3, "\"scoring_func\": \"softmax\""));
}

TEST(Config, RejectsTopKAboveTheExperts) {
  auto config = read_config(
      with(kMixtral, "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 9"), "config.json");
  expect_error(config, "model.top_k", "top-k is 9 of 8 experts");
  EXPECT_EQ(config.error()[0].place.file, "config.json");
}

TEST(Config, RejectsHeadsThatDoNotDivide) {
  expect_refused(with(kMixtral, "\"num_key_value_heads\": 8", "\"num_key_value_heads\": 5"),
                 "model.heads", "32 query heads are not divisible by 5");
}

TEST(Config, RejectsSizesOutOfRange) {
  expect_refused(with(kMixtral, "\"num_hidden_layers\": 32", "\"num_hidden_layers\": 2000000000"),
                 "hf.config.range",
                 "\"num_hidden_layers\" is 2000000000, but must be a whole number from 1 to 1024");
  expect_refused(with(kMixtral, "\"hidden_size\": 4096", "\"hidden_size\": 0"), "hf.config.range",
                 "\"hidden_size\" is 0");
  expect_refused(with(kMixtral, "\"vocab_size\": 32000", "\"vocab_size\": -1"), "hf.config.range",
                 "\"vocab_size\" is -1");
}

TEST(Config, RejectsValuesOfWrongTypes) {
  expect_refused(with(kMixtral, "\"hidden_size\": 4096", "\"hidden_size\": \"4096\""),
                 "hf.config.type", "\"hidden_size\" must be an integer, found \"4096\"");
  expect_refused(with(kMixtral, "\"hidden_size\": 4096", "\"hidden_size\": 4096.5"),
                 "hf.config.type", "4096.5");
  expect_refused(with(kQwen3, "\"norm_topk_prob\": true", "\"norm_topk_prob\": 1"),
                 "hf.config.type", "\"norm_topk_prob\" must be true or false, found 1");
  expect_refused(with(kQwen3, "\"mlp_only_layers\": []", "\"mlp_only_layers\": [\"a\"]"),
                 "hf.config.type", "a list of integers");
  expect_refused(with(kMixtral, "\"silu\"", "7"), "hf.config.type", "\"hidden_act\"");
}

TEST(Config, RejectsInvalidDocuments) {
  expect_refused("[]", "hf.config.not_object", "not a JSON object");
  expect_refused("{}", "hf.config.model_type", "\"model_type\"");
  expect_refused("{", "json.syntax", "");
  expect_refused(std::string(kMixtral) + '\0', "json.syntax", "NUL");
  expect_refused(std::string(kMixtral) + " x", "json.syntax", "");
  expect_refused(R"({"model_type": "qwen3_moee"})", "hf.family.unknown",
                 "(did you mean 'qwen3_moe'?); known families: ");
  expect_refused(R"({"model_type": "mixtral", "model_type": "olmoe"})", "json.duplicate_key", "");
}

// ---- rope --------------------------------------------------------------------------------------

RopeConfig rope_of(const std::string& member) {
  return good(with(kQwen3, "\"rope_scaling\": null", member)).attention.rope;
}

void expect_rope_refused(const std::string& member, const std::string& code,
                         const std::string& part) {
  expect_refused(with(kQwen3, "\"rope_scaling\": null", member), code, part);
}

TEST(ConfigRope, ReadsVersion5Parameters) {
  std::string text = with(kQwen3, "\"rope_theta\": 10000000,", "");
  text = with(text, "\"rope_scaling\": null",
              R"("rope_parameters": {"rope_type": "default", "rope_theta": 5e5})");
  RopeConfig rope = good(text).attention.rope;
  EXPECT_EQ(rope.theta, 5e5);
  EXPECT_EQ(rope.scaling, RopeScaling::none);
}

TEST(ConfigRope, UsesTheFamilysDefaultBase) {
  std::string text = with(kMixtral, "\"rope_theta\": 1000000.0,", "");
  EXPECT_EQ(good(text).attention.rope.theta, 1e6);
  EXPECT_EQ(good(with(kQwen2, "\"rope_theta\": 1000000.0,", "")).attention.rope.theta, 1e4);
}

TEST(ConfigRope, ReadsLinearScaling) {
  RopeConfig rope = rope_of(R"("rope_scaling": {"type": "linear", "factor": 4})");
  EXPECT_EQ(rope.scaling, RopeScaling::linear);
  EXPECT_EQ(rope.factor, 4);
  EXPECT_EQ(rope.theta, 1e7);
}

TEST(ConfigRope, ReadsLlama3Scaling) {
  RopeConfig rope = rope_of(R"("rope_scaling": {"rope_type": "llama3", "factor": 8,
      "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 8192})");
  EXPECT_EQ(rope.scaling, RopeScaling::llama3);
  EXPECT_EQ(rope.original_max_positions, 8192);
  EXPECT_EQ(rope.high_freq_factor, 4);
}

TEST(ConfigRope, ReadsYarnScaling) {
  RopeConfig rope = rope_of(R"("rope_scaling": {"type": "yarn", "factor": 4.0,
      "original_max_position_embeddings": 65536, "beta_fast": 16, "truncate": false,
      "mscale": 1.0, "mscale_all_dim": 0.5, "attention_factor": null})");
  EXPECT_EQ(rope.scaling, RopeScaling::yarn);
  EXPECT_EQ(rope.factor, 4);
  EXPECT_EQ(rope.yarn.fast, 16);
  EXPECT_EQ(rope.yarn.slow, 1);
  EXPECT_FALSE(rope.yarn.truncate);
  EXPECT_EQ(rope.mscale_all_dim, 0.5);
  EXPECT_EQ(rope.attention_factor, std::nullopt);
}

TEST(ConfigRope, WarnsIfYarnFactorContradictsLengths) {
  auto config = read_config(with(kQwen3, "\"rope_scaling\": null",
                                 R"("rope_scaling": {"type": "yarn", "factor": 4.0,
                                     "original_max_position_embeddings": 32768})"),
                            "config.json");
  ASSERT_TRUE(config.has_value()) << render(config.error());
  ASSERT_EQ(config->warnings.size(), 1u);
  EXPECT_EQ(config->warnings[0].code, "hf.config.rope_factor");
  EXPECT_THAT(config->warnings[0].cause, testing::HasSubstr("factor is 4, "));
  EXPECT_EQ(config->model.attention.rope.factor, 4);
  EXPECT_EQ(rope_of(R"("rope_scaling": {"type": "yarn", "factor": null,
                       "original_max_position_embeddings": 32768})")
                .factor,
            8);
}

TEST(ConfigRope, RejectsUnknownTypesAndKeys) {
  expect_rope_refused(R"("rope_scaling": {"rope_type": "su", "factor": 4})",
                      "hf.config.unknown_rope",
                      "unknown rope type \"su\"; known: default, linear, llama3, yarn");
  expect_rope_refused(R"("rope_scaling": {"type": "linear", "factor": 4, "alpha": 2})",
                      "hf.config.unknown_key", "unknown key \"rope_scaling.alpha\" (2)");
  expect_rope_refused(R"("rope_scaling": {"type": "linear"})", "hf.config.missing_key",
                      "\"rope_scaling\" has no \"factor\"");
  expect_rope_refused(R"("rope_scaling": {"type": "linear", "factor": "4"})", "hf.config.type",
                      "\"rope_scaling.factor\" must be a number");
  expect_rope_refused(R"("rope_scaling": 4)", "hf.config.type", "must be an object");
  expect_rope_refused(R"("rope_scaling": {"type": "linear", "factor": 0})", "model.rope", "factor");
  expect_rope_refused(R"("rope_scaling": {"rope_type": "yarn"})", "hf.config.missing_key",
                      "\"rope_scaling\" has no \"factor\"");
}

TEST(ConfigRope, RejectsContradictoryRopeKeys) {
  expect_rope_refused(R"("rope_parameters": {"rope_type": "default", "rope_theta": 5e5})",
                      "hf.config.conflict",
                      "\"rope_theta\" is 10000000, but inside "
                      "\"rope_parameters\" it is 500000");
  expect_rope_refused(R"("rope_parameters": {"rope_type": "default"},
                         "rope_scaling": {"rope_type": "linear", "factor": 2})",
                      "hf.config.conflict", "differ");
  expect_rope_refused(R"("rope_scaling": {"rope_type": "linear", "type": "yarn", "factor": 2})",
                      "hf.config.conflict", "differ");
}

TEST(ConfigRope, ReadsPartialRotation) {
  rope_of(R"("rope_parameters": {"rope_type": "default", "partial_rotary_factor": 1.0})");
  expect_rope_refused(R"("rope_parameters": {"partial_rotary_factor": 0.5})",
                      "hf.config.unsupported_value",
                      "\"rope_parameters.partial_rotary_factor\" "
                      "is 0.5, but must be 1");
}

// ---- the user's families -----------------------------------------------------------------------

const char* const kOwnFamily = R"({
  "format": "moec-family/1",
  "model_type": "own",
  "summary": "for tests",
  "axes": {"shared_expert": "plain", "renorm": "sum_plus_eps", "rope": "interleaved",
           "group_score": "top2_sum"},
  "moe_offset": 0,
  "concepts": {
    "layers": {"keys": ["L"]}, "hidden": {"keys": ["d"]}, "vocab": {"keys": ["V"]},
    "max_positions": {"default": 100}, "norm_eps": {"default": 1e-6},
    "activation": {"default": "silu"}, "tied_head": {"default": true},
    "heads": {"keys": ["H"]}, "kv_heads": {"default": "= heads"},
    "head_dim": {"default": "= hidden / heads"},
    "attention_scale": {"keys": ["scale"], "default": null},
    "rotary_factor": {"keys": ["partial_rotary_factor"], "default": 1},
    "dense_ff": {"keys": ["F"]}, "experts": {"keys": ["E"]}, "top_k": {"keys": ["k"]},
    "expert_ff": {"keys": ["f"]}, "score": {"keys": ["scoring_func"]},
    "renorm_eps": {"default": 1e-20}, "routed_scale": {"keys": ["rsf"], "default": 1},
    "groups": {"keys": ["n_group"], "default": 1}, "groups_kept": {"keys": ["topk_group"], "default": 1},
    "choice_bias": {"default": true}, "shared_experts": {"keys": ["n_shared"]},
    "shared_ff": {"default": "= shared_experts * expert_ff"},
    "first_moe_layer": {"keys": ["first_dense"], "default": 0}
  },
  "tensors": {
    "embed": "e", "final_norm": "n", "attn_norm": "{i}.a", "ffn_norm": "{i}.b", "q": "{i}.q",
    "k": "{i}.k", "v": "{i}.v", "o": "{i}.o", "router": "{i}.r", "router_choice_bias": "{i}.rb",
    "expert_gate": "{i}.{e}.g", "expert_up": "{i}.{e}.u", "expert_down": "{i}.{e}.d",
    "shared_gate_proj": "{i}.sg", "shared_up": "{i}.su", "shared_down": "{i}.sd",
    "gate": "{i}.g", "up": "{i}.u", "down": "{i}.d"
  }
})";

const char* const kOwnConfig = R"({"model_type": "own", "L": 3, "d": 16, "V": 20, "H": 2, "F": 24,
  "E": 8, "k": 2, "f": 6, "scoring_func": "sigmoid", "rsf": 2.5, "n_group": 4, "topk_group": 2,
  "n_shared": 2, "first_dense": 1, "scale": 0.25, "partial_rotary_factor": 0.5})";

TEST(ConfigOwnFamily, CombinesAxesOfSeveralFamilies) {
  Result<Family> family = load_family(kOwnFamily);
  ASSERT_TRUE(family.has_value()) << render(family.error());
  auto config = read_config(kOwnConfig, "config.json", &*family);
  ASSERT_TRUE(config.has_value()) << render(config.error());
  const ModelConfig& model = config->model;
  EXPECT_EQ(model.moe.routing.score, Score::sigmoid);
  EXPECT_EQ(model.moe.routing.renorm, Renorm::sum_plus_eps);
  EXPECT_EQ(model.moe.routing.eps, 1e-20);
  EXPECT_EQ(model.moe.routing.scale, 2.5);
  EXPECT_EQ(model.moe.routing.groups, 4);
  EXPECT_EQ(model.moe.routing.groups_kept, 2);
  EXPECT_EQ(model.moe.routing.group_score, GroupScore::top2_sum);
  EXPECT_TRUE(model.moe.choice_bias);
  EXPECT_EQ(model.moe.shared_ff, 12);
  EXPECT_FALSE(model.moe.shared_gated);
  EXPECT_EQ(moe_layers(model), (std::vector<bool>{false, true, true}));
  EXPECT_EQ(model.attention.scale, 0.25);
  EXPECT_EQ(model.attention.rope.style, RopeStyle::interleaved);
  EXPECT_EQ(model.attention.rope.dims, 4);
  EXPECT_TRUE(model.head.tied);
}

TEST(ConfigOwnFamily, ReadsTheConfigsScoringFunction) {
  Result<Family> family = load_family(kOwnFamily);
  ASSERT_TRUE(family.has_value());
  expect_error(read_config(with(kOwnConfig, "sigmoid", "tanh"), "config.json", &*family),
               "hf.config.unknown_score", "unknown scoring function \"tanh\"");
  auto selected = read_config(with(with(kOwnConfig, "sigmoid", "softmax_selected"),
                                   "\"n_group\": 4, \"topk_group\": 2,", ""),
                              "config.json", &*family);
  ASSERT_TRUE(selected.has_value()) << render(selected.error());
  EXPECT_EQ(selected->model.moe.routing.renorm, Renorm::none) << "already sums to 1";
}

TEST(ConfigOwnFamily, RequiresAMatchingModelType) {
  Result<Family> family = load_family(kOwnFamily);
  ASSERT_TRUE(family.has_value());
  expect_error(
      read_config(kMixtral, "config.json", &*family), "hf.family.mismatch",
      "the family file describes \"own\", but the model_type of the config is \"mixtral\"");
}

}  // namespace
}  // namespace moec
