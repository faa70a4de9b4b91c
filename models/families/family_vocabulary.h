// The words of family descriptors: concepts (what a config says), tensor roles, and the axes that
// have no enum in ir/. A later family adds words here, and their meaning where they are read.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ir/base/enum_table.h"

namespace moec {

// A config gives labels as an object, {"0": "O", …}.
enum class ConceptType : uint8_t { integer, number, boolean, name, integers, names, labels };

// What a descriptor must say about a concept.
//   needed     a descriptor must name it
//   defaulted  a descriptor may leave it out; models/families/README.md tells the value
//   optional   the same, and the value may be "unset": so says null in a config
enum class Presence : uint8_t { needed, defaulted, optional };

// A value that a model's config gives.
struct Concept {
  std::string_view name;
  ConceptType type;
  Presence presence;
  int64_t minimum = 0, maximum = 0;  // of an integer
};

std::span<const Concept> all_concepts();
const Concept* find_concept(std::string_view name);

// Whether a role's template must have {i} for the layer and {e} for the expert.
enum class RoleScope : uint8_t { model, layer, expert };

struct Role {
  std::string_view name;
  RoleScope scope;
};

std::span<const Role> all_roles();
const Role* find_role(std::string_view name);

enum class AttentionKind : uint8_t { gqa, mla, cca };
constexpr auto enum_names(AttentionKind) {
  return name_table<AttentionKind>({"gqa", "mla", "cca"});
}

// Whether a token sees earlier ones only, or later ones as well.
enum class Direction : uint8_t { causal, bidirectional };
constexpr auto enum_names(Direction) { return name_table<Direction>({"causal", "bidirectional"}); }

// How the k experts are chosen: among all, or among those of the best groups.
enum class ChoiceMethod : uint8_t { greedy, group_limited_greedy, noaux_tc };
constexpr auto enum_names(ChoiceMethod) {
  return name_table<ChoiceMethod>({"greedy", "group_limited_greedy", "noaux_tc"});
}

// Where a block's norms stand: before attention and MLP, inside the residual branch.
enum class BlockKind : uint8_t { pre_norm };
constexpr auto enum_names(BlockKind) { return name_table<BlockKind>({"pre_norm"}); }

// Which layers see only `window` keys, when a window is set and in use.
//   all_layers              each one
//   even_layers_below_max   0, 2, 4, … below the concept max_window_layers
// The concept layer_types, where a config gives it, decides instead.
enum class WindowRule : uint8_t { none, all_layers, even_layers_below_max };
constexpr auto enum_names(WindowRule) {
  return name_table<WindowRule>({"none", "all_layers", "even_layers_below_max"});
}

// What makes a router's logits: one linear map, or an MLP that goes on from the layer before.
enum class RouterKind : uint8_t { linear, carried_mlp };
constexpr auto enum_names(RouterKind) { return name_table<RouterKind>({"linear", "carried_mlp"}); }

enum class SharedExpert : uint8_t { none, plain, sigmoid_gated };
constexpr auto enum_names(SharedExpert) {
  return name_table<SharedExpert>({"none", "plain", "sigmoid_gated"});
}

}  // namespace moec
