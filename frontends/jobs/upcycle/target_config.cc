#include "frontends/jobs/upcycle/target_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "ir/base/invariant.h"

namespace moec {

namespace {

// Ordered by preference: without --arch, the first that can represent the model is chosen.
constexpr std::array<TargetArch, 6> kArchs = {{
    {"mixtral", "MixtralForCausalLM", SharedForm::none, LayerChoice::all},
    {"qwen3_moe", "Qwen3MoeForCausalLM", SharedForm::none, LayerChoice::any, true},
    {"qwen2_moe", "Qwen2MoeForCausalLM", SharedForm::gated, LayerChoice::any, true},
    {"granitemoeshared", "GraniteMoeSharedForCausalLM", SharedForm::optional, LayerChoice::all},
    {"deepseek_v3", "DeepseekV3ForCausalLM", SharedForm::experts, LayerChoice::last, true, true},
    {"nemotron_h", "NemotronHForCausalLM", SharedForm::always, LayerChoice::apart, true, true},
}};

}  // namespace

std::span<const TargetArch> target_archs() { return kArchs; }

const TargetArch* find_target_arch(std::string_view model_type) {
  for (const TargetArch& arch : kArchs)
    if (arch.model_type == model_type) return &arch;
  return nullptr;
}

using nlohmann::ordered_json;

namespace {

// Keys with the same meaning in every class, copied unchanged.
constexpr const char* kCarriedKeys[] = {"bos_token_id",
                                        "eos_token_id",
                                        "pad_token_id",
                                        "attention_dropout",
                                        "dtype",
                                        "initializer_range",
                                        "torch_dtype",
                                        "transformers_version",
                                        "rope_parameters",
                                        "rope_scaling",
                                        "rope_theta",
                                        "use_cache",
                                        "partial_rotary_factor"};

void carry_keys(const ordered_json& raw, ordered_json& config) {
  // Absent keys stay absent: a null would override the default of the class.
  for (const char* key : kCarriedKeys)
    if (raw.contains(key)) config[key] = raw[key];
}

// Writes the defaults of the bos and eos tokens in the classes of transformers 5.23 explicitly,
// because the new class has other defaults.
void write_tokens(const HfConfig& dense, ordered_json& config) {
  const bool is_llama =
      dense.family->model_type == "llama" || dense.family->model_type == "mistral";
  const bool is_deepseek = dense.family->model_type == "deepseek_v3";
  const auto write = [&](const char* key, std::optional<int64_t> id) {
    // Ids in the source's config take precedence.
    if (config.contains(key)) return;
    config[key] = id ? ordered_json(*id) : ordered_json();
  };
  if (is_llama || is_deepseek) {
    write("bos_token_id", is_llama ? 1 : 0);
    write("eos_token_id", is_llama ? 2 : 1);
  }
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) write(key, std::nullopt);
}

void write_attention(const AttentionConfig& attention, ordered_json& config) {
  config["num_attention_heads"] = attention.heads;
  config["num_key_value_heads"] = attention.kv_heads;
  config["head_dim"] = attention.head_dim;
  // Without either key, the class would use its own default for theta.
  if (!config.contains("rope_parameters") && !config.contains("rope_theta"))
    config["rope_theta"] = attention.rope.theta;
}

ordered_json common_config(const TargetArch& arch, const HfConfig& dense, const ordered_json& raw) {
  const ModelConfig& model = dense.model;
  // Configs may omit hidden_act; "silu" is the default of the Llama class.
  ordered_json config = {{"architectures", {arch.class_name}},
                         {"model_type", arch.model_type},
                         {"vocab_size", model.vocab},
                         {"hidden_size", model.hidden},
                         {"num_hidden_layers", model.layers.size()},
                         {"max_position_embeddings", model.max_positions},
                         {"rms_norm_eps", model.norm.eps},
                         {"hidden_act", raw.value("hidden_act", "silu")},
                         {"tie_word_embeddings", model.head.tied}};
  carry_keys(raw, config);
  write_tokens(dense, config);
  write_attention(model.attention, config);
  return config;
}

// Returns the window that all layers share; 0 if they have none or differ.
int64_t common_window(const ModelConfig& model) {
  const int64_t window = model.layers.front().window;
  // Windows per layer cannot be expressed by a single number.
  const bool same = std::all_of(model.layers.begin(), model.layers.end(),
                                [&](const LayerConfig& layer) { return layer.window == window; });
  return same ? window : 0;
}

int64_t largest_window(const ModelConfig& model) {
  int64_t window = 0;
  for (const LayerConfig& layer : model.layers) window = std::max(window, layer.window);
  return window;
}

void write_qwen_layers(const ExpertSizes& sizes, const ModelConfig& model, ordered_json& config) {
  ordered_json dense = ordered_json::array();
  for (size_t i = 0; i < sizes.layers.size(); ++i)
    if (!sizes.layers[i]) dense.push_back(i);
  // Every layer is sparse unless mlp_only_layers lists it.
  config["decoder_sparse_step"] = 1;
  config["mlp_only_layers"] = dense;
  config["intermediate_size"] = model.mlp.ff;
  config["moe_intermediate_size"] = sizes.expert_ff;
  config["num_experts"] = sizes.experts;
  config["norm_topk_prob"] = sizes.normalised;
}

void write_mixtral(const ExpertSizes& sizes, const ModelConfig& model, ordered_json& config) {
  const int64_t window = common_window(model);
  // null disables the window.
  config["sliding_window"] = window > 0 ? ordered_json(window) : ordered_json();
  config["intermediate_size"] = sizes.expert_ff;
  config["num_local_experts"] = sizes.experts;
}

void write_qwen3_moe(const ExpertSizes& sizes, const ModelConfig& model, ordered_json& config) {
  const int64_t window = common_window(model);
  config["attention_bias"] = model.attention.qkv_bias || model.attention.o_bias;
  config["use_sliding_window"] = window > 0;
  config["sliding_window"] = window > 0 ? ordered_json(window) : ordered_json();
  write_qwen_layers(sizes, model, config);
}

void write_qwen2_moe(const ExpertSizes& sizes, const ModelConfig& model, ordered_json& config) {
  const int64_t window = largest_window(model);
  config["qkv_bias"] = model.attention.qkv_bias;
  // use_sliding_window switches the window; the size alone has no effect.
  config["use_sliding_window"] = window > 0;
  if (window > 0) config["sliding_window"] = window;
  // As many layers as exist, so that only layer_types decides.
  config["max_window_layers"] = model.layers.size();
  ordered_json types = ordered_json::array();
  for (const LayerConfig& layer : model.layers)
    types.push_back(layer.window > 0 ? "sliding_attention" : "full_attention");
  config["layer_types"] = types;
  write_qwen_layers(sizes, model, config);
  config["shared_expert_intermediate_size"] = sizes.shared_ff;
}

void write_granite(const ExpertSizes& sizes, const ModelConfig& model, ordered_json& config) {
  config["attention_bias"] = model.attention.qkv_bias || model.attention.o_bias;
  // Granite reads these four factors from the config, so each must have the dense model's value.
  config["attention_multiplier"] = model.attention.scale;
  config["embedding_multiplier"] = model.stream.embedding_scale;
  config["residual_multiplier"] = model.stream.residual_scale;
  config["logits_scaling"] = model.head.divisor;
  config["intermediate_size"] = sizes.expert_ff;
  config["num_local_experts"] = sizes.experts;
  config["shared_intermediate_size"] = sizes.shared_ff;
}

// Writes the router keys that deepseek_v3 and nemotron_h share: sigmoid scores, one group.
void write_sigmoid_router(const ExpertSizes& sizes, ordered_json& config) {
  config["n_routed_experts"] = sizes.experts;
  config["moe_intermediate_size"] = sizes.expert_ff;
  config["norm_topk_prob"] = sizes.normalised;
  // Neutral values: the dense model has neither a factor nor groups.
  config["routed_scaling_factor"] = 1.0;
  config["n_group"] = 1;
  config["topk_group"] = 1;
}

void write_deepseek(const ExpertSizes& sizes, ordered_json& config) {
  // These aliases of n_routed_experts would contradict it.
  for (const char* alias : {"num_experts", "num_local_experts"}) config.erase(alias);
  write_sigmoid_router(sizes, config);
  const auto first = std::find(sizes.layers.begin(), sizes.layers.end(), true);
  // LayerChoice::last guarantees that all layers after the first one have experts.
  config["first_k_dense_replace"] = first - sizes.layers.begin();
  config["n_shared_experts"] = sizes.shared_ff / sizes.expert_ff;
}

void write_nemotron(const ExpertSizes& sizes, ordered_json& config) {
  config.erase("num_local_experts");
  write_sigmoid_router(sizes, config);
  config.erase("moe_latent_size");  // experts made of MLPs read the whole residual stream
  config["n_shared_experts"] = 1;
  config["moe_shared_expert_intermediate_size"] = sizes.shared_ff;
  // The list of layers has one of two names.
  for (const char* key : {"layers_block_type", "layer_types"})
    for (size_t i = 0; config.contains(key) && i < sizes.layers.size(); ++i)
      if (sizes.layers[i]) config[key][i] = "moe";
  // Some configs have a string with one letter per layer.
  if (!config.contains("hybrid_override_pattern") || !config["hybrid_override_pattern"].is_string())
    return;
  std::string pattern = config["hybrid_override_pattern"];
  for (size_t i = 0; i < std::min(pattern.size(), sizes.layers.size()); ++i)
    if (sizes.layers[i]) pattern[i] = 'E';
  config["hybrid_override_pattern"] = pattern;
}

}  // namespace

ordered_json target_config(const TargetArch& arch, const ExpertSizes& sizes, const HfConfig& dense,
                           const ordered_json& raw) {
  // A config of the same family keeps all keys, including those that moec does not know.
  ordered_json config = arch.same_family ? raw : common_config(arch, dense, raw);
  // The tensors decide whether the head is tied, so the key follows the resolved model.
  if (config.contains("tie_word_embeddings")) config["tie_word_embeddings"] = dense.model.head.tied;
  if (arch.model_type == "mixtral")
    write_mixtral(sizes, dense.model, config);
  else if (arch.model_type == "qwen3_moe")
    write_qwen3_moe(sizes, dense.model, config);
  else if (arch.model_type == "qwen2_moe")
    write_qwen2_moe(sizes, dense.model, config);
  else if (arch.model_type == "granitemoeshared")
    write_granite(sizes, dense.model, config);
  else if (arch.model_type == "deepseek_v3")
    write_deepseek(sizes, config);
  else
    write_nemotron(sizes, config);
  config["num_experts_per_tok"] = sizes.top_k;
  return config;
}

namespace {

class ConfigComparison {
 public:
  void same(bool equal, std::string what) {
    if (!equal) found_.push_back(std::move(what));
  }
  std::vector<std::string> take() { return std::move(found_); }

 private:
  std::vector<std::string> found_;
};

void compare_attention(const AttentionConfig& dense, const AttentionConfig& moe,
                       ConfigComparison& comparison) {
  comparison.same(dense.latent == moe.latent,
                  dense.latent ? "latent attention" : "attention without a latent");
  comparison.same(dense.qk_norm == moe.qk_norm,
                  fmt::format("norms of queries and keys ({})", enum_name(dense.qk_norm)));
  // Additional biases of the new model are zeros, so only missing ones are misfits.
  comparison.same(!dense.qkv_bias || moe.qkv_bias, "biases of q, k and v");
  comparison.same(!dense.o_bias || moe.o_bias, "a bias of o");
  comparison.same(dense.scale == moe.scale, "the scale of the attention scores");
  comparison.same(dense.rope == moe.rope,
                  fmt::format("the rotation ({}, scaling {})", enum_name(dense.rope.style),
                              enum_name(dense.rope.scaling)));
  // Equalises the properties that were compared above. The rest must be equal as a whole, so that
  // new fields cannot be forgotten.
  AttentionConfig rest = moe;
  rest.latent = dense.latent;
  rest.qk_norm = dense.qk_norm;
  rest.qkv_bias = dense.qkv_bias;
  rest.o_bias = dense.o_bias;
  rest.scale = dense.scale;
  rest.rope = dense.rope;
  comparison.same(rest == dense, "the attention heads or their output");
}

void compare_layers(const ModelConfig& dense, const ModelConfig& moe,
                    ConfigComparison& comparison) {
  if (dense.layers.size() != moe.layers.size()) return comparison.same(false, "its layers");
  for (size_t i = 0; i < dense.layers.size(); ++i) {
    const LayerConfig &before = dense.layers[i], &after = moe.layers[i];
    if (before.window != after.window)
      return comparison.same(false, fmt::format("the sliding window of layer {}", i));
    LayerConfig rest = after;
    // Experts are the intended difference.
    rest.moe = before.moe;
    if (rest != before) return comparison.same(false, fmt::format("the kind of layer {}", i));
  }
}

}  // namespace

std::vector<std::string> misfits(const ModelConfig& dense, const ModelConfig& moe) {
  ConfigComparison comparison;
  comparison.same(dense.hidden == moe.hidden && dense.vocab == moe.vocab &&
                      dense.max_positions == moe.max_positions,
                  "its sizes");
  comparison.same(dense.norm == moe.norm, "its norms");
  comparison.same(dense.stream == moe.stream, "the factors or norms of the residual stream");
  comparison.same(dense.mlp.gating == moe.mlp.gating,
                  fmt::format("the activation {}", enum_name(dense.mlp.gating.activation)));
  // plan_experts() does not plan biases of experts.
  comparison.same(!dense.mlp.bias, "biases of the feed-forward parts");
  comparison.same(dense.head == moe.head, "its head");
  comparison.same(dense.more_attention == moe.more_attention && dense.recurrent == moe.recurrent,
                  "additional kinds of attention or mixers");
  compare_attention(dense.attention, moe.attention, comparison);
  compare_layers(dense, moe, comparison);
  return comparison.take();
}

}  // namespace moec
