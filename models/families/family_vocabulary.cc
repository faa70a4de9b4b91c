#include "models/families/family_vocabulary.h"

#include <algorithm>

namespace moec {
namespace {

// The bounds keep every product of two sizes below kMaxElements and every table small. They are far
// above the sizes of any published model.
constexpr int64_t kWidest = int64_t{1} << 20;
constexpr int64_t kLongest = int64_t{1} << 24;
constexpr int64_t kMostDims = 65536;  // of a head

// A plan names each layer, expert, group and tap, and an export compiles some op for each head, so
// these counts are bounded tightly: some ten times what the largest published models have
// (models/published): 94 layers in Qwen3-235B-A22B, 384 experts and top-8 in Kimi-K2, 128 heads in
// DeepSeek-V3, 8 groups there, 2 shared experts, and 2 taps in ZAYA1.
constexpr int64_t kMostLayers = 1024;
constexpr int64_t kMostExperts = 4096;
constexpr int64_t kMostHeads = 4096;
constexpr int64_t kMostTaps = 64;

constexpr Concept kConcepts[] = {
    {"layers", ConceptType::integer, Presence::needed, 1, kMostLayers},
    {"mtp_layers", ConceptType::integer, Presence::defaulted, 0, kMostLayers},
    {"hidden", ConceptType::integer, Presence::needed, 1, kWidest},
    {"vocab", ConceptType::integer, Presence::needed, 1, kLongest},
    {"max_positions", ConceptType::integer, Presence::needed, 1, int64_t{1} << 30},
    {"norm_eps", ConceptType::number, Presence::needed},
    {"embedding_scale", ConceptType::number, Presence::defaulted},
    {"residual_scale", ConceptType::number, Presence::defaulted},
    {"logits_divisor", ConceptType::number, Presence::defaulted},
    {"logits_softcap", ConceptType::number, Presence::optional},
    {"layer_scale", ConceptType::boolean, Presence::defaulted},
    {"activation", ConceptType::name, Presence::needed},
    {"swiglu_limit", ConceptType::number, Presence::defaulted},
    {"swiglu_alpha", ConceptType::number, Presence::defaulted},
    {"mlp_bias", ConceptType::boolean, Presence::defaulted},
    {"tied_head", ConceptType::boolean, Presence::needed},
    {"head_bias", ConceptType::boolean, Presence::defaulted},
    {"labels", ConceptType::object, Presence::defaulted},
    {"heads", ConceptType::integer, Presence::needed, 1, kMostHeads},
    {"kv_heads", ConceptType::integer, Presence::needed, 1, kMostHeads},
    {"head_dim", ConceptType::integer, Presence::needed, 1, kMostDims},
    {"full_kv_heads", ConceptType::integer, Presence::optional, 1, kMostHeads},
    {"full_head_dim", ConceptType::integer, Presence::optional, 1, kMostDims},
    {"full_keys_are_values", ConceptType::boolean, Presence::defaulted},
    {"attention_by_layer", ConceptType::object, Presence::defaulted},
    {"q_rank", ConceptType::integer, Presence::optional, 0, kWidest},
    {"kv_rank", ConceptType::integer, Presence::defaulted, 1, kWidest},
    {"key_dims", ConceptType::integer, Presence::defaulted, 1, kMostDims},
    {"value_dims", ConceptType::integer, Presence::defaulted, 1, kMostDims},
    {"latent_norm_eps", ConceptType::number, Presence::defaulted},
    {"channel_taps", ConceptType::integer, Presence::defaulted, 1, kMostTaps},
    {"head_taps", ConceptType::integer, Presence::defaulted, 1, kMostTaps},
    {"mixer_taps", ConceptType::integer, Presence::defaulted, 2, kMostTaps},
    {"mixer_bias", ConceptType::boolean, Presence::defaulted},
    {"mixer_map_bias", ConceptType::boolean, Presence::defaulted},
    {"mixer_expand", ConceptType::number, Presence::defaulted},
    {"mixer_inner", ConceptType::integer, Presence::defaulted, 1, kWidest},
    {"mixer_key_heads", ConceptType::integer, Presence::defaulted, 1, kMostHeads},
    {"mixer_value_heads", ConceptType::integer, Presence::defaulted, 1, kMostHeads},
    {"mixer_key_dim", ConceptType::integer, Presence::defaulted, 1, kMostDims},
    {"mixer_value_dim", ConceptType::integer, Presence::defaulted, 1, kMostDims},
    {"attention_step", ConceptType::integer, Presence::optional, 0, kMostLayers},
    {"attention_scale", ConceptType::number, Presence::optional},
    {"use_qk_norm", ConceptType::boolean, Presence::defaulted},
    {"qkv_bias", ConceptType::boolean, Presence::defaulted},
    {"o_bias", ConceptType::boolean, Presence::defaulted},
    {"sinks", ConceptType::boolean, Presence::defaulted},
    {"clip_qkv", ConceptType::number, Presence::optional},
    {"rotation", ConceptType::object, Presence::defaulted},
    {"position_embedding", ConceptType::name, Presence::optional},
    {"rope_theta", ConceptType::number, Presence::defaulted},
    {"original_positions", ConceptType::integer, Presence::optional, 1, int64_t{1} << 30},
    {"rope_interleaved", ConceptType::boolean, Presence::defaulted},
    {"rope_alpha", ConceptType::boolean, Presence::defaulted},
    {"rope_sections", ConceptType::boolean, Presence::defaulted},
    {"rotary_factor", ConceptType::number, Presence::optional},
    {"rotary_dims", ConceptType::integer, Presence::optional, 1, kMostDims},
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
    {"full_step", ConceptType::integer, Presence::defaulted, 1, kMostLayers},
    {"last_is_full", ConceptType::boolean, Presence::defaulted},
    {"layer_kinds", ConceptType::names, Presence::optional},
    {"layer_pattern", ConceptType::name, Presence::optional},
    {"chosen_keys", ConceptType::integer, Presence::defaulted, 1, int64_t{1} << 30},
    {"chosen_blocks", ConceptType::integer, Presence::defaulted, 1, int64_t{1} << 30},
    {"block_keys", ConceptType::integer, Presence::defaulted, 1, int64_t{1} << 30},
    {"indexed_layers", ConceptType::integers, Presence::optional},
    {"dense_ff", ConceptType::integer, Presence::optional, 1, kWidest},
    // From here on about experts (is_about_experts).
    {"experts", ConceptType::integer, Presence::of_experts, 0, kMostExperts},
    {"top_k", ConceptType::integer, Presence::of_experts, 1, kMostExperts},
    {"expert_ff", ConceptType::integer, Presence::of_experts, 1, kWidest},
    {"score", ConceptType::name, Presence::of_experts},
    {"renorm", ConceptType::boolean, Presence::defaulted},
    {"renorm_eps", ConceptType::number, Presence::defaulted},
    {"mixer_eps", ConceptType::number, Presence::defaulted},
    {"routed_scale", ConceptType::number, Presence::defaulted},
    {"choice_method", ConceptType::name, Presence::defaulted},
    {"groups", ConceptType::integer, Presence::optional, 1, kMostExperts},
    {"groups_kept", ConceptType::integer, Presence::optional, 1, kMostExperts},
    {"router_bias", ConceptType::boolean, Presence::defaulted},
    {"router_hidden", ConceptType::integer, Presence::defaulted, 1, kWidest},
    {"null_slots", ConceptType::integer, Presence::defaulted, 0, kMostExperts},
    {"expert_biases", ConceptType::boolean, Presence::defaulted},
    {"choice_bias", ConceptType::boolean, Presence::defaulted},
    {"further_experts", ConceptType::integer, Presence::defaulted, 0, kMostExperts},
    {"shared_experts", ConceptType::integer, Presence::defaulted, 0, kMostExperts},
    {"shared_ff", ConceptType::integer, Presence::defaulted, 0, kWidest},
    {"moe_step", ConceptType::integer, Presence::defaulted, 1, 4096},
    {"first_moe_layer", ConceptType::integer, Presence::defaulted, 0, kMostLayers},
    {"last_moe_layer", ConceptType::integer, Presence::optional, -1, kMostLayers},
    {"dense_layers", ConceptType::integers, Presence::defaulted},
    {"moe_layers", ConceptType::integers, Presence::optional},
    {"mlp_types", ConceptType::names, Presence::optional},
    {"moe_flags", ConceptType::integers, Presence::optional},
};

constexpr Role kRoles[] = {
    {"embed", RoleScope::model},
    {"embed_scale", RoleScope::model},
    {"embed_bias", RoleScope::model},
    {"final_norm", RoleScope::model},
    {"final_norm_bias", RoleScope::model},
    {"lm_head", RoleScope::model},
    {"lm_head_bias", RoleScope::model},
    {"attn_norm", RoleScope::layer},
    {"attn_norm_bias", RoleScope::layer},
    {"ffn_norm", RoleScope::layer},
    {"ffn_norm_bias", RoleScope::layer},
    {"attn_post_norm", RoleScope::layer},
    {"ffn_post_norm", RoleScope::layer},
    {"ffn_routed_norm", RoleScope::layer},
    {"ffn_routed_post_norm", RoleScope::layer},
    {"ffn_shared_post_norm", RoleScope::layer},
    {"layer_scale", RoleScope::layer},
    {"q", RoleScope::layer},
    {"k", RoleScope::layer},
    {"v", RoleScope::layer},
    {"o", RoleScope::layer},
    {"q_a", RoleScope::layer},
    {"q_a_bias", RoleScope::layer},
    {"q_a_norm", RoleScope::layer},
    {"q_b", RoleScope::layer},
    {"kv_a", RoleScope::layer},
    {"kv_a_bias", RoleScope::layer},
    {"kv_a_norm", RoleScope::layer},
    {"kv_b", RoleScope::layer},
    {"q_bias", RoleScope::layer},
    {"k_bias", RoleScope::layer},
    {"v_bias", RoleScope::layer},
    {"o_bias", RoleScope::layer},
    {"q_norm", RoleScope::layer},
    {"k_norm", RoleScope::layer},
    {"k_temperature", RoleScope::layer},
    {"v_current", RoleScope::layer},
    {"v_delayed", RoleScope::layer},
    {"v_current_bias", RoleScope::layer},
    {"v_delayed_bias", RoleScope::layer},
    {"channel_conv", RoleScope::layer},
    {"channel_conv_bias", RoleScope::layer},
    {"head_conv", RoleScope::layer},
    {"head_conv_bias", RoleScope::layer},
    {"mixer_in", RoleScope::layer},
    {"mixer_in_bias", RoleScope::layer},
    {"mixer_qkv", RoleScope::layer},
    {"mixer_z", RoleScope::layer},
    {"mixer_qkvz", RoleScope::layer},
    {"mixer_b", RoleScope::layer},
    {"mixer_a", RoleScope::layer},
    {"mixer_ba", RoleScope::layer},
    {"mixer_conv", RoleScope::layer},
    {"mixer_conv_bias", RoleScope::layer},
    {"mixer_decay", RoleScope::layer},
    {"mixer_decay_bias", RoleScope::layer},
    {"mixer_skip", RoleScope::layer},
    {"mixer_norm", RoleScope::layer},
    {"mixer_out", RoleScope::layer},
    {"mixer_out_bias", RoleScope::layer},
    {"attn_part_scale", RoleScope::layer},
    {"attn_part_bias", RoleScope::layer},
    {"attn_residual_scale", RoleScope::layer},
    {"attn_residual_bias", RoleScope::layer},
    {"ffn_part_scale", RoleScope::layer},
    {"ffn_part_bias", RoleScope::layer},
    {"ffn_residual_scale", RoleScope::layer},
    {"ffn_residual_bias", RoleScope::layer},
    {"sinks", RoleScope::layer},
    {"router", RoleScope::layer},
    {"router_in_out", RoleScope::layer},
    {"router_bias", RoleScope::layer},
    {"router_scale", RoleScope::layer},
    {"router_expert_scale", RoleScope::layer},
    {"router_down", RoleScope::layer},
    {"router_down_bias", RoleScope::layer},
    {"router_state_scale", RoleScope::layer},
    {"router_norm", RoleScope::layer},
    {"router_fc1", RoleScope::layer},
    {"router_fc1_bias", RoleScope::layer},
    {"router_fc2", RoleScope::layer},
    {"router_fc2_bias", RoleScope::layer},
    {"router_choice_bias", RoleScope::layer},
    {"router_choice_bias_row", RoleScope::layer},
    {"router_choice_bias_rows", RoleScope::layer},
    {"expert_gate", RoleScope::expert},
    {"expert_up", RoleScope::expert},
    {"expert_down", RoleScope::expert},
    {"experts_gate_up", RoleScope::layer},
    {"experts_up", RoleScope::layer},
    {"experts_down", RoleScope::layer},
    {"experts_gate_up_in_out", RoleScope::layer},
    {"experts_down_in_out", RoleScope::layer},
    {"experts_gate_up_bias", RoleScope::layer},
    {"experts_down_bias", RoleScope::layer},
    {"shared_gate_proj", RoleScope::layer},
    {"shared_up", RoleScope::layer},
    {"shared_gate_up", RoleScope::layer},
    {"shared_down", RoleScope::layer},
    {"shared_gate_proj_bias", RoleScope::layer},
    {"shared_up_bias", RoleScope::layer},
    {"shared_down_bias", RoleScope::layer},
    {"shared_sigmoid_gate", RoleScope::layer},
    {"gate", RoleScope::layer},
    {"up", RoleScope::layer},
    {"gate_up", RoleScope::layer},
    {"down", RoleScope::layer},
    {"gate_bias", RoleScope::layer},
    {"up_bias", RoleScope::layer},
    {"down_bias", RoleScope::layer},
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

bool is_about_experts(const Concept& item) {
  return find_concept(item.name) >= find_concept("experts");
}

std::span<const Role> all_roles() { return kRoles; }
const Role* find_role(std::string_view name) { return find_by_name(all_roles(), name); }
bool is_about_experts(const Role& role) {
  constexpr std::string_view kBeginnings[] = {"expert", "router", "shared_", "ffn_routed",
                                              "ffn_shared"};
  return std::any_of(std::begin(kBeginnings), std::end(kBeginnings),
                     [&](std::string_view beginning) { return role.name.starts_with(beginning); });
}

}  // namespace moec
