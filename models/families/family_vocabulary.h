// The vocabulary of family descriptors: concepts (values of a config), tensor roles, and the axes
// that have no enum in ir/. A family that needs a new word adds it here and gives it a meaning in
// frontends/sources/hf/config.cc and in the builders.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ir/base/enum_table.h"

namespace moec {

// The type of a concept's value. An object is that of `labels`, {"0": "O", …}, or of `rotation`.
enum class ConceptType : uint8_t { integer, number, boolean, name, integers, names, object };

// Whether a descriptor must have a concept.
//   needed      it must
//   of_experts  it must, unless it describes models without experts: then it has none of these
//   defaulted   it may leave the concept out; models/families/README.md lists the default
//   optional    the same, and the value may be unset; null in a config means unset
enum class Presence : uint8_t { needed, of_experts, defaulted, optional };

// A value that a config may have, independent of the key that holds it.
struct Concept {
  std::string_view name;
  ConceptType type;
  Presence presence;
  int64_t minimum = 0, maximum = 0;  // of an integer
};

std::span<const Concept> all_concepts();
const Concept* find_concept(std::string_view name);
// Whether a concept says something about experts, their router or the layers that have them, so
// that a family without experts has no use for it.
bool is_about_experts(const Concept& item);

// Which placeholders a role's template has: none, {i} for the layer, or {i} and {e} for the expert.
enum class RoleScope : uint8_t { model, layer, expert };

struct Role {
  std::string_view name;
  RoleScope scope;
};

std::span<const Role> all_roles();
const Role* find_role(std::string_view name);
// Whether a tensor of this role belongs to experts or their router.
bool is_about_experts(const Role& role);

enum class AttentionKind : uint8_t { gqa, mla, cca };
constexpr auto enum_names(AttentionKind) {
  return name_table<AttentionKind>({"gqa", "mla", "cca"});
}

// Where attention has a gate: nowhere, or behind each head's queries in the matrix of these.
enum class AttentionGate : uint8_t { none, sigmoid_in_q };
constexpr auto enum_names(AttentionGate) {
  return name_table<AttentionGate>({"none", "sigmoid_in_q"});
}

// Whether a token attends to earlier tokens only, or to later ones as well.
enum class Direction : uint8_t { causal, bidirectional };
constexpr auto enum_names(Direction) { return name_table<Direction>({"causal", "bidirectional"}); }

// How the k experts are chosen: from all experts, or from those of the best groups.
enum class ChoiceMethod : uint8_t { greedy, group_limited_greedy, noaux_tc };
constexpr auto enum_names(ChoiceMethod) {
  return name_table<ChoiceMethod>({"greedy", "group_limited_greedy", "noaux_tc"});
}

// Where a block has its norms. pre_norm: before attention and MLP, inside the residual branch.
// sandwich: behind each of them as well.
enum class BlockKind : uint8_t { pre_norm, sandwich };
constexpr auto enum_names(BlockKind) { return name_table<BlockKind>({"pre_norm", "sandwich"}); }

// Which layers attend to `window` keys only, if a window is set and in use.
//   all_layers              every layer
//   even_layers_below_max   0, 2, 4, … below the concept max_window_layers
//   layers_from_max         max_window_layers and those behind it
//   between_full            all but layer i with (i + 1) mod full_step = 0
// The concept layer_types overrides this rule where a config has it.
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

// Which layers rotate, where the model has a rotation. all: those that unrotated_step or
// rotated_layers leave. windowed: those with a window.
enum class RotatedLayers : uint8_t { all, windowed };
constexpr auto enum_names(RotatedLayers) { return name_table<RotatedLayers>({"all", "windowed"}); }

// What computes a router's logits: a linear map, or an MLP that takes the state of the router in
// the layer before, or a linear map with a norm of its own (MoeConfig::router_normed).
enum class RouterKind : uint8_t { linear, carried_mlp, normed };
constexpr auto enum_names(RouterKind) {
  return name_table<RouterKind>({"linear", "carried_mlp", "normed"});
}

// Whether the MLPs, experts and dense layers, have a gate.
enum class MlpKind : uint8_t { gated, ungated };
constexpr auto enum_names(MlpKind) { return name_table<MlpKind>({"gated", "ungated"}); }

// normed: the shared expert and the routed ones have a norm each, in front and behind.
enum class SharedExpert : uint8_t { none, plain, sigmoid_gated, normed };
constexpr auto enum_names(SharedExpert) {
  return name_table<SharedExpert>({"none", "plain", "sigmoid_gated", "normed"});
}

}  // namespace moec
