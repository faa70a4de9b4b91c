#include "frontends/sources/hf/role_choices.h"

namespace moec {
namespace {

constexpr std::string_view kExperts[] = {"expert_gate", "expert_up", "expert_down"};
constexpr std::string_view kAllExperts[] = {"experts_gate_up", "experts_down"};
constexpr std::string_view kSeparate[] = {"experts_gate", "experts_up", "experts_down"};
constexpr std::string_view kUngated[] = {"expert_up", "expert_down"};
constexpr std::string_view kAllUngated[] = {"experts_up", "experts_down"};
constexpr std::string_view kShared[] = {"shared_gate_proj", "shared_up"};
constexpr std::string_view kSharedBoth[] = {"shared_gate_up"};
constexpr std::string_view kDense[] = {"gate", "up"};
constexpr std::string_view kDenseBoth[] = {"gate_up"};
constexpr std::string_view kRouter[] = {"router"};
constexpr std::string_view kTransposedRouter[] = {"router_in_out"};
constexpr std::string_view kChoiceBias[] = {"router_choice_bias_row"};
constexpr std::string_view kChoiceBiases[] = {"router_choice_bias_rows"};

constexpr std::string_view kMixerParts[] = {"mixer_qkv", "mixer_z", "mixer_b", "mixer_a"};
constexpr std::string_view kMixerIn[] = {"mixer_in"};
constexpr std::string_view kQkv[] = {"q", "k", "v"};
constexpr std::string_view kFusedQkv[] = {"qkv"};
constexpr std::string_view kQkvBiases[] = {"q_bias", "k_bias", "v_bias"};
constexpr std::string_view kFusedQkvBias[] = {"qkv_bias"};

constexpr std::string_view kConvolutions[] = {"mixer_q_conv", "mixer_k_conv", "mixer_v_conv"};
constexpr std::string_view kConvolution[] = {"mixer_conv"};

constexpr RoleChoice kRoleChoices[] = {{kExperts, kAllExperts},      {kExperts, kSeparate},
                                       {kUngated, kAllUngated},      {kShared, kSharedBoth},
                                       {kDense, kDenseBoth},         {kRouter, kTransposedRouter},
                                       {kChoiceBias, kChoiceBiases}, {kConvolutions, kConvolution},
                                       {kMixerParts, kMixerIn},      {kQkv, kFusedQkv},
                                       {kQkvBiases, kFusedQkvBias}};

}  // namespace

std::span<const RoleChoice> role_choices() { return kRoleChoices; }

}  // namespace moec
