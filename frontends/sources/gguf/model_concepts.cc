#include "frontends/sources/gguf/model_concepts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "frontends/sources/gguf/layer_keys.h"

namespace moec {
namespace {

using ValueOf = ConceptValue (*)(const ModelConfig& model);

// Returns the number of layers if no layer is MoE.
int64_t first_moe_layer(const ModelConfig& model) {
  const auto first = std::find_if(model.layers.begin(), model.layers.end(),
                                  [](const LayerConfig& layer) { return layer.moe; });
  return first - model.layers.begin();
}

// Returns the distance between consecutive MoE layers. If the only MoE layer is the last layer,
// returns the number of layers.
int64_t moe_step(const ModelConfig& model) {
  const auto first = model.layers.begin() + first_moe_layer(model);
  if (first == model.layers.end()) return 1;
  const auto second = std::find_if(first + 1, model.layers.end(),
                                   [](const LayerConfig& layer) { return layer.moe; });
  if (second != model.layers.end()) return second - first;
  return first + 1 == model.layers.end() ? first - model.layers.begin() + 1 : 1;
}

ConceptValue window(const ModelConfig& model) {
  for (const LayerConfig& layer : model.layers)
    if (layer.window > 0) return layer.window;
  return {};
}

// Some configs have a number of shared experts; the model has only their joint width.
ConceptValue shared_experts(const ModelConfig& model) {
  const MoeConfig& moe = model.moe;
  return moe.expert_ff > 0 ? moe.shared_ff / moe.expert_ff : int64_t{0};
}

template <int64_t LatentConfig::*Field>
ConceptValue of_latent(const ModelConfig& model) {
  return model.attention.latent ? ConceptValue(*model.attention.latent.*Field) : ConceptValue();
}

template <int64_t RecurrentConfig::*Field>
ConceptValue of_mixer(const ModelConfig& model) {
  return model.recurrent ? ConceptValue(*model.recurrent.*Field) : ConceptValue();
}

template <bool RecurrentConfig::*Field>
ConceptValue of_mixer(const ModelConfig& model) {
  return model.recurrent ? ConceptValue(*model.recurrent.*Field) : ConceptValue();
}

ConceptValue mixer_inner(const ModelConfig& model) {
  if (!model.recurrent) return {};
  return model.recurrent->value_heads * model.recurrent->value_dim;
}

// The attention of the first layer that sees all keys; that of all layers if there is none.
const AttentionConfig& full_attention(const ModelConfig& model) {
  for (const LayerConfig& layer : model.layers)
    if (layer_kind(layer) == "full_attention") return model.attention_of(layer);
  return model.attention;
}

// The attention of the first layer with a window; that of all layers if there is none.
const AttentionConfig& window_attention(const ModelConfig& model) {
  for (const LayerConfig& layer : model.layers)
    if (layer_kind(layer) == "sliding_attention") return model.attention_of(layer);
  return model.attention;
}

// Inverts read_latent() in config_attention.cc, which sets the number of shared dims.
int64_t head_dim(const ModelConfig& model) {
  if (model.attention.latent) return model.attention.latent->shared_dims;
  return window_attention(model).head_dim;
}

int64_t kv_heads(const ModelConfig& model) {
  if (model.attention.latent) return model.attention.heads;
  // GeometryReader in config_attention.cc gives either layers that see all keys or layers with a
  // window another number of heads than the usual one.
  const AttentionConfig& full = full_attention(model);
  return full.projections == Projections::keys_are_values ? window_attention(model).kv_heads
                                                          : full.kv_heads;
}

ConceptValue value_dims(const ModelConfig& model) {
  return model.attention.latent ? model.attention.latent->value_dims : model.attention.value_dim;
}

ConceptValue position_embedding(const ModelConfig& model) {
  return std::string(model.attention.rope.style == RopeStyle::none ? "nope" : "rope");
}

ConceptValue temperature_step(const ModelConfig& model) {
  if (!model.attention.temperature) return {};
  return static_cast<int64_t>(model.attention.temperature->step);
}

// 1 for layers with a rotation, 0 for others; no value if all layers have one.
ConceptValue rotated_layers(const ModelConfig& model) {
  std::vector<int64_t> flags;
  for (const LayerConfig& layer : model.layers) flags.push_back(layer.rotated ? 1 : 0);
  if (std::count(flags.begin(), flags.end(), 0) == 0) return {};
  return flags;
}

// Numbers of pairs for each coordinate of an image patch. llama.cpp requires them, and that they
// cover all pairs; a token of a text has the same position in each.
ConceptValue even_sections(const ModelConfig& model) {
  const int64_t pairs = (model.attention.rope.dims / 2 + 2) / 3;
  return std::vector<int64_t>{pairs, pairs, pairs, 0};
}

ConceptValue temperature_scale(const ModelConfig& model) {
  return model.attention.temperature ? ConceptValue(model.attention.temperature->scale)
                                     : ConceptValue();
}

ConceptValue latent_eps(const ModelConfig& model) {
  return model.attention.latent ? ConceptValue(model.attention.latent->norm_eps) : ConceptValue();
}

// clang-format off
const std::map<std::string_view, ValueOf> kValues = {
    {"layers", [](const ModelConfig& m) -> ConceptValue { return std::ssize(m.layers); }},
    {"hidden", [](const ModelConfig& m) -> ConceptValue { return m.hidden; }},
    {"vocab", [](const ModelConfig& m) -> ConceptValue { return m.vocab; }},
    {"max_positions", [](const ModelConfig& m) -> ConceptValue { return m.max_positions; }},
    {"norm_eps", [](const ModelConfig& m) -> ConceptValue { return m.norm.eps; }},
    {"heads", [](const ModelConfig& m) -> ConceptValue { return m.attention.heads; }},
    {"kv_heads", [](const ModelConfig& m) -> ConceptValue { return kv_heads(m); }},
    {"head_dim", [](const ModelConfig& m) -> ConceptValue { return head_dim(m); }},
    {"qkv_bias", [](const ModelConfig& m) -> ConceptValue { return m.attention.qkv_bias; }},
    {"o_bias", [](const ModelConfig& m) -> ConceptValue { return m.attention.o_bias; }},
    {"mlp_bias", [](const ModelConfig& m) -> ConceptValue { return m.mlp.bias; }},
    {"head_bias", [](const ModelConfig& m) -> ConceptValue { return m.head.bias; }},
    {"attention_scale", [](const ModelConfig& m) -> ConceptValue { return m.attention.scale; }},
    {"embedding_scale", [](const ModelConfig& m) -> ConceptValue { return m.stream.embedding_scale; }},
    {"residual_scale", [](const ModelConfig& m) -> ConceptValue { return m.stream.residual_scale; }},
    {"logits_divisor", [](const ModelConfig& m) -> ConceptValue { return m.head.divisor; }},
    {"window", window},
    {"q_rank", of_latent<&LatentConfig::q_rank>},
    {"kv_rank", of_latent<&LatentConfig::kv_rank>},
    {"key_dims", of_latent<&LatentConfig::key_dims>},
    {"value_dims", value_dims},
    {"window_kv_heads", [](const ModelConfig& m) -> ConceptValue { return window_attention(m).kv_heads; }},
    {"full_kv_heads", [](const ModelConfig& m) -> ConceptValue { return full_attention(m).kv_heads; }},
    {"full_head_dim", [](const ModelConfig& m) -> ConceptValue { return full_attention(m).head_dim; }},
    {"value_scale", [](const ModelConfig& m) -> ConceptValue { return m.attention.scaling.value_scale; }},
    {"temperature_scale", temperature_scale},
    {"mscale_all_dim", [](const ModelConfig& m) -> ConceptValue { return m.attention.rope.mscale_all_dim.value_or(0); }},
    {"position_embedding", position_embedding},
    {"logits_softcap", [](const ModelConfig& m) -> ConceptValue { return m.head.softcap; }},
    {"mixer_taps", of_mixer<&RecurrentConfig::taps>},
    {"mixer_bias", of_mixer<&RecurrentConfig::bias>},
    {"mixer_map_bias", of_mixer<&RecurrentConfig::map_bias>},
    {"mixer_key_heads", of_mixer<&RecurrentConfig::key_heads>},
    {"mixer_value_heads", of_mixer<&RecurrentConfig::value_heads>},
    {"mixer_key_dim", of_mixer<&RecurrentConfig::key_dim>},
    {"mixer_value_dim", of_mixer<&RecurrentConfig::value_dim>},
    {"mixer_inner", mixer_inner},
    {"expert_latent", [](const ModelConfig& m) -> ConceptValue { return m.moe.latent > 0 ? ConceptValue(m.moe.latent) : ConceptValue(); }},
    {"latent_norm_eps", latent_eps},
    {"rotary_dims", [](const ModelConfig& m) -> ConceptValue { return m.attention.rope.dims; }},
    {"dense_ff", [](const ModelConfig& m) -> ConceptValue { return m.mlp.ff; }},
    {"experts", [](const ModelConfig& m) -> ConceptValue { return m.moe.experts; }},
    {"top_k", [](const ModelConfig& m) -> ConceptValue { return m.moe.experts > 0 ? m.moe.routing.top_k : 0; }},
    {"expert_ff", [](const ModelConfig& m) -> ConceptValue { return m.moe.expert_ff; }},
    {"routed_or_dense_ff", [](const ModelConfig& m) -> ConceptValue { return m.moe.experts > 0 ? m.moe.expert_ff : m.mlp.ff; }},
    {"latent_kv_heads", [](const ModelConfig&) -> ConceptValue { return int64_t{1}; }},
    {"even_sections", even_sections},
    {"layer_thetas", rotated_layers},
    {"temperature_step", temperature_step},
    {"shared_ff", [](const ModelConfig& m) -> ConceptValue { return m.moe.shared_ff; }},
    {"shared_experts", shared_experts},
    {"score", [](const ModelConfig& m) -> ConceptValue { return std::string(enum_name(m.moe.routing.score)); }},
    {"renorm", [](const ModelConfig& m) -> ConceptValue { return m.moe.routing.renorm != Renorm::none; }},
    {"routed_scale", [](const ModelConfig& m) -> ConceptValue { return m.moe.routing.scale; }},
    {"groups", [](const ModelConfig& m) -> ConceptValue { return m.moe.routing.groups; }},
    {"groups_kept", [](const ModelConfig& m) -> ConceptValue { return m.moe.routing.groups_kept; }},
    {"first_moe_layer", [](const ModelConfig& m) -> ConceptValue { return first_moe_layer(m); }},
    {"moe_step", [](const ModelConfig& m) -> ConceptValue { return moe_step(m); }},
};
// clang-format on

}  // namespace

ConceptValue concept_value(const ModelConfig& model, std::string_view name) {
  const auto found = kValues.find(name);
  return found == kValues.end() ? ConceptValue() : found->second(model);
}

double concept_number(const ConceptValue& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  const auto* yes = std::get_if<bool>(&value);
  return yes != nullptr && *yes ? 1 : 0;
}

std::string to_string(const ConceptValue& value) {
  if (std::holds_alternative<std::monostate>(value)) return "not given";
  if (const auto* name = std::get_if<std::string>(&value)) return *name;
  if (const auto* yes = std::get_if<bool>(&value)) return *yes ? "true" : "false";
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value))
    return fmt::format("[{}]", fmt::join(*list, ", "));
  return fmt::format("{}", concept_number(value));
}

}  // namespace moec
