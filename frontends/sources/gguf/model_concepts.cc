#include "frontends/sources/gguf/model_concepts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

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

// Inverts read_latent() in config_attention.cc, which sets the number of shared dims.
int64_t head_dim(const ModelConfig& model) {
  return model.attention.latent ? model.attention.latent->shared_dims : model.attention.head_dim;
}

int64_t kv_heads(const ModelConfig& model) {
  return model.attention.latent ? model.attention.heads : model.attention.kv_heads;
}

template <int64_t LatentConfig::*Field>
ConceptValue of_latent(const ModelConfig& model) {
  return model.attention.latent ? ConceptValue(*model.attention.latent.*Field) : ConceptValue();
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
    {"value_dims", of_latent<&LatentConfig::value_dims>},
    {"latent_norm_eps", latent_eps},
    {"rotary_dims", [](const ModelConfig& m) -> ConceptValue { return m.attention.rope.dims; }},
    {"dense_ff", [](const ModelConfig& m) -> ConceptValue { return m.mlp.ff; }},
    {"experts", [](const ModelConfig& m) -> ConceptValue { return m.moe.experts; }},
    {"top_k", [](const ModelConfig& m) -> ConceptValue { return m.moe.routing.top_k; }},
    {"expert_ff", [](const ModelConfig& m) -> ConceptValue { return m.moe.expert_ff; }},
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
  return fmt::format("{}", concept_number(value));
}

std::string broken_product(const ModelConfig& model, const GgufArchitecture& architecture) {
  const auto number = [&](const std::string& name) {
    return concept_number(concept_value(model, name));
  };
  for (const auto& [name, terms] : architecture.writing.equal) {
    double product = static_cast<double>(terms.number.value_or(1));
    for (const std::string& factor : terms.concepts) product *= number(factor);
    if (number(name) != product)
      return fmt::format("uses {} = {}, but this model has {}", name, product, number(name));
  }
  return {};
}

}  // namespace moec
