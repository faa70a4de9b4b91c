#include "models/family_vocabulary.h"

namespace moec {
namespace {

// Bounds keep every product of two sizes inside kMaxElements and every table small; they are far
// above any published model.
constexpr int64_t kWidest = int64_t{1} << 20;
constexpr int64_t kLongest = int64_t{1} << 24;

constexpr Concept kConcepts[] = {
    {"layers", ConceptType::integer, Presence::needed, 1, 4096},
    {"hidden", ConceptType::integer, Presence::needed, 1, kWidest},
    {"vocab", ConceptType::integer, Presence::needed, 1, kLongest},
    {"max_positions", ConceptType::integer, Presence::needed, 1, int64_t{1} << 30},
    {"norm_eps", ConceptType::number, Presence::needed},
    {"embedding_scale", ConceptType::number, Presence::defaulted},
    {"residual_scale", ConceptType::number, Presence::defaulted},
    {"logits_divisor", ConceptType::number, Presence::defaulted},
    {"activation", ConceptType::name, Presence::needed},
    {"tied_head", ConceptType::boolean, Presence::needed},
    {"head_bias", ConceptType::boolean, Presence::defaulted},
    {"labels", ConceptType::labels, Presence::defaulted},
    {"heads", ConceptType::integer, Presence::needed, 1, 65536},
    {"kv_heads", ConceptType::integer, Presence::needed, 1, 65536},
    {"head_dim", ConceptType::integer, Presence::needed, 1, 65536},
    {"q_rank", ConceptType::integer, Presence::optional, 0, kWidest},
    {"kv_rank", ConceptType::integer, Presence::defaulted, 1, kWidest},
    {"key_dims", ConceptType::integer, Presence::defaulted, 1, 65536},
    {"value_dims", ConceptType::integer, Presence::defaulted, 1, 65536},
    {"latent_norm_eps", ConceptType::number, Presence::defaulted},
    {"attention_scale", ConceptType::number, Presence::optional},
    {"use_qk_norm", ConceptType::boolean, Presence::defaulted},
    {"qkv_bias", ConceptType::boolean, Presence::defaulted},
    {"o_bias", ConceptType::boolean, Presence::defaulted},
    {"sinks", ConceptType::boolean, Presence::defaulted},
    {"clip_qkv", ConceptType::number, Presence::optional},
    {"rope_theta", ConceptType::number, Presence::defaulted},
    {"original_positions", ConceptType::integer, Presence::optional, 1, int64_t{1} << 30},
    {"rotary_factor", ConceptType::number, Presence::defaulted},
    {"rotary_dims", ConceptType::integer, Presence::optional, 1, 65536},
    {"rotated_layers", ConceptType::integers, Presence::optional},
    {"unrotated_step", ConceptType::integer, Presence::defaulted, 0, 4096},
    {"use_temperature", ConceptType::boolean, Presence::defaulted},
    {"temperature_scale", ConceptType::number, Presence::defaulted},
    {"temperature_step", ConceptType::number, Presence::defaulted},
    {"chunk", ConceptType::integer, Presence::optional, 0, int64_t{1} << 30},
    {"window", ConceptType::integer, Presence::optional, 0, int64_t{1} << 30},
    {"use_window", ConceptType::boolean, Presence::defaulted},
    {"max_window_layers", ConceptType::integer, Presence::defaulted, 0, int64_t{1} << 30},
    {"layer_types", ConceptType::names, Presence::optional},
    {"dense_ff", ConceptType::integer, Presence::optional, 1, kWidest},
    {"experts", ConceptType::integer, Presence::needed, 0, 65536},
    {"top_k", ConceptType::integer, Presence::needed, 1, 65536},
    {"expert_ff", ConceptType::integer, Presence::needed, 1, kWidest},
    {"score", ConceptType::name, Presence::needed},
    {"renorm", ConceptType::boolean, Presence::defaulted},
    {"renorm_eps", ConceptType::number, Presence::defaulted},
    {"mixer_eps", ConceptType::number, Presence::defaulted},
    {"routed_scale", ConceptType::number, Presence::defaulted},
    {"choice_method", ConceptType::name, Presence::defaulted},
    {"groups", ConceptType::integer, Presence::defaulted, 1, 65536},
    {"groups_kept", ConceptType::integer, Presence::defaulted, 1, 65536},
    {"router_bias", ConceptType::boolean, Presence::defaulted},
    {"expert_biases", ConceptType::boolean, Presence::defaulted},
    {"choice_bias", ConceptType::boolean, Presence::defaulted},
    {"shared_experts", ConceptType::integer, Presence::defaulted, 0, 65536},
    {"shared_ff", ConceptType::integer, Presence::defaulted, 0, kWidest},
    {"moe_step", ConceptType::integer, Presence::defaulted, 1, 4096},
    {"first_moe_layer", ConceptType::integer, Presence::defaulted, 0, 4096},
    {"last_moe_layer", ConceptType::integer, Presence::optional, -1, 4096},
    {"dense_layers", ConceptType::integers, Presence::defaulted},
    {"moe_layers", ConceptType::integers, Presence::optional},
};

constexpr Role kRoles[] = {
    {"embed", RoleScope::model},
    {"final_norm", RoleScope::model},
    {"final_norm_bias", RoleScope::model},
    {"lm_head", RoleScope::model},
    {"lm_head_bias", RoleScope::model},
    {"attn_norm", RoleScope::layer},
    {"attn_norm_bias", RoleScope::layer},
    {"ffn_norm", RoleScope::layer},
    {"ffn_norm_bias", RoleScope::layer},
    {"q", RoleScope::layer},
    {"k", RoleScope::layer},
    {"v", RoleScope::layer},
    {"o", RoleScope::layer},
    {"q_a", RoleScope::layer},
    {"q_a_norm", RoleScope::layer},
    {"q_b", RoleScope::layer},
    {"kv_a", RoleScope::layer},
    {"kv_a_norm", RoleScope::layer},
    {"kv_b", RoleScope::layer},
    {"q_bias", RoleScope::layer},
    {"k_bias", RoleScope::layer},
    {"v_bias", RoleScope::layer},
    {"o_bias", RoleScope::layer},
    {"q_norm", RoleScope::layer},
    {"k_norm", RoleScope::layer},
    {"sinks", RoleScope::layer},
    {"router", RoleScope::layer},
    {"router_bias", RoleScope::layer},
    {"router_choice_bias", RoleScope::layer},
    {"router_choice_bias_row", RoleScope::layer},
    {"expert_gate", RoleScope::expert},
    {"expert_up", RoleScope::expert},
    {"expert_down", RoleScope::expert},
    {"experts_gate_up", RoleScope::layer},
    {"experts_down", RoleScope::layer},
    {"experts_gate_up_in_out", RoleScope::layer},
    {"experts_down_in_out", RoleScope::layer},
    {"experts_gate_up_bias", RoleScope::layer},
    {"experts_down_bias", RoleScope::layer},
    {"shared_gate_proj", RoleScope::layer},
    {"shared_up", RoleScope::layer},
    {"shared_gate_up", RoleScope::layer},
    {"shared_down", RoleScope::layer},
    {"shared_sigmoid_gate", RoleScope::layer},
    {"gate", RoleScope::layer},
    {"up", RoleScope::layer},
    {"down", RoleScope::layer},
};

template <class Item>
const Item* find_by_name(std::span<const Item> items, std::string_view name) {
  for (const Item& item : items)
    if (item.name == name) return &item;
  return nullptr;
}

}  // namespace

std::span<const Concept> all_concepts() { return kConcepts; }
const Concept* find_concept(std::string_view name) { return find_by_name(all_concepts(), name); }

std::span<const Role> all_roles() { return kRoles; }
const Role* find_role(std::string_view name) { return find_by_name(all_roles(), name); }

}  // namespace moec
