// The vocabulary of family descriptors: concepts (values of a config), tensor roles, and the axes
// that have no enum in ir/. To add a word, declare it here and implement it in
// frontends/sources/hf/config.cc and in the builders.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ir/base/enum_table.h"

namespace moec {

// The type of a concept's value. Only `labels`, {"0": "O", …}, and `rotation` are objects.
enum class ConceptType : uint8_t {
  integer,
  number,
  boolean,
  name,
  integers,
  numbers,
  names,
  object
};

// Requirement on a descriptor to have a concept.
//   needed      required
//   of_experts  required for models with experts, not allowed for others
//   defaulted   may be omitted; models/families/README.md lists the default
//   optional    may be omitted, and the value may be unset; null in a config means unset
enum class Presence : uint8_t { needed, of_experts, defaulted, optional };

// A value that a config may contain, independent of its key.
struct Concept {
  std::string_view name;
  ConceptType type;
  Presence presence;
  int64_t minimum = 0, maximum = 0;  // range of an integer concept
};

std::span<const Concept> all_concepts();
const Concept* find_concept(std::string_view name);
// True if a concept concerns experts, their router or MoE layers. A family without experts must not
// have such a concept.
bool is_about_experts(const Concept& item);

// Placeholders of a role's template: none, {i} for the layer, or {i} and {e} for the expert.
enum class RoleScope : uint8_t { model, layer, expert };

struct Role {
  std::string_view name;
  RoleScope scope;
};

std::span<const Role> all_roles();
const Role* find_role(std::string_view name);
// True if a tensor of this role belongs to experts or their router.
bool is_about_experts(const Role& role);

enum class AttentionKind : uint8_t { gqa, mla, cca };
constexpr auto enum_names(AttentionKind) {
  return name_table<AttentionKind>({"gqa", "mla", "cca"});
}

// Attention gate. sigmoid_in_q: the gate's rows follow each head's query rows in the matrix q.
// sigmoid, softplus: the gate has a matrix (OutputGate).
enum class AttentionGate : uint8_t { none, sigmoid_in_q, sigmoid, softplus };
constexpr auto enum_names(AttentionGate) {
  return name_table<AttentionGate>({"none", "sigmoid_in_q", "sigmoid", "softplus"});
}

// Tokens to which a token attends: earlier ones only, or also later ones.
enum class Direction : uint8_t { causal, bidirectional };
constexpr auto enum_names(Direction) { return name_table<Direction>({"causal", "bidirectional"}); }

// Candidates for top-k: all experts, or the experts of the best groups.
enum class ChoiceMethod : uint8_t { greedy, group_limited_greedy, noaux_tc };
constexpr auto enum_names(ChoiceMethod) {
  return name_table<ChoiceMethod>({"greedy", "group_limited_greedy", "noaux_tc"});
}

// Norms of a block. pre_norm: before attention and MLP, inside the residual branch. sandwich: also
// after each of them. experts_sandwich: also after the experts of MoE layers. post_norm: only after
// each of them. parallel: as pre_norm, but attention and MLP read the same input, and share a norm.
enum class BlockKind : uint8_t { pre_norm, sandwich, experts_sandwich, post_norm, parallel };
constexpr auto enum_names(BlockKind) {
  return name_table<BlockKind>(
      {"pre_norm", "sandwich", "experts_sandwich", "post_norm", "parallel"});
}

// Layers that attend to `window` keys only, if a window is set and in use.
//   all_layers              every layer
//   even_layers_below_max   0, 2, 4, … below the concept max_window_layers
//   layers_from_max         max_window_layers and later ones
//   between_full            all but layer i with (i + 1 + full_offset) mod full_step = 0, the first
//                           leading_full layers and the last trailing_full layers
// The concept layer_types overrides this rule if a config has it.
enum class WindowRule : uint8_t {
  none,
  all_layers,
  even_layers_below_max,
  layers_from_max,
  between_full
};
constexpr auto enum_names(WindowRule) {
  return name_table<WindowRule>(
      {"none", "all_layers", "even_layers_below_max", "layers_from_max", "between_full"});
}

// Layers that rotate, if the model has a rotation. all: every layer that unrotated_step and
// rotated_layers do not exclude. windowed: layers with a window.
enum class RotatedLayers : uint8_t { all, windowed };
constexpr auto enum_names(RotatedLayers) { return name_table<RotatedLayers>({"all", "windowed"}); }

// Layers whose queries have a temperature (QueryTemperature), if the model has one.
enum class TemperedLayers : uint8_t { unrotated, all };
constexpr auto enum_names(TemperedLayers) {
  return name_table<TemperedLayers>({"unrotated", "all"});
}

// Computation of a router's logits: a linear map, an MLP that reads the state of the previous
// layer's router, or a linear map with a separate norm (RouterMap::normed).
enum class RouterKind : uint8_t { linear, carried_mlp, normed };
constexpr auto enum_names(RouterKind) {
  return name_table<RouterKind>({"linear", "carried_mlp", "normed"});
}

// Gating of the MLPs, of experts and of dense layers.
enum class MlpKind : uint8_t { gated, ungated };
constexpr auto enum_names(MlpKind) { return name_table<MlpKind>({"gated", "ungated"}); }

// Combination of the outputs of routed and shared experts.
enum class SharedSum : uint8_t { sum, average };
constexpr auto enum_names(SharedSum) { return name_table<SharedSum>({"sum", "average"}); }

// normed: the shared expert and the routed ones each have a norm before and after.
enum class SharedExpert : uint8_t { none, plain, sigmoid_gated, normed };
constexpr auto enum_names(SharedExpert) {
  return name_table<SharedExpert>({"none", "plain", "sigmoid_gated", "normed"});
}

}  // namespace moec
