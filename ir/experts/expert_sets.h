// Sets of experts, layer by layer: those that a mask leaves, that a group has, that a node holds.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

// What sets of experts are taken from.
struct ExpertGrid {
  std::vector<int64_t> layers;  // MoE layers, ascending
  int64_t experts = 0;          // of each
  int64_t top_k = 0;            // that a token chooses of each
  int64_t groups = 1;           // of consecutive experts, of which a token keeps the best
  int64_t groups_kept = 1;
  bool operator==(const ExpertGrid&) const = default;
};

// MoE layer → its experts, ascending, each once. A layer that is absent has all of its experts.
struct ExpertSets {
  std::map<int64_t, std::vector<int64_t>> layers;
  bool has(int64_t layer, int64_t expert) const;
  // How many experts the layer has.
  int64_t count(int64_t layer, const ExpertGrid& grid) const;
  bool operator==(const ExpertSets&) const = default;
};

// MoE layer → the sets of its experts that share shards; each set ascends. A layer that is absent
// has one set, of all experts.
using ExpertPartition = std::map<int64_t, std::vector<std::vector<int64_t>>>;

// Reads sets as people write them:
//
//   L0:0-7;L1:1,3,5      experts 0 to 7 of layer 0, and three of layer 1
//   L0-3:0-7;*:8         of four layers, and of all MoE layers that no other item names
//
// Items are separated by semicolons or lines; what follows a # in a line is a comment. `what` names
// the text in messages: a flag, or a file. Errors: experts.item (another form), experts.layer (no
// MoE layer of the model), experts.expert (no expert of the layer), experts.twice (two items name
// one layer).
Result<ExpertSets> parse_expert_sets(std::string_view text, const ExpertGrid& grid,
                                     const std::string& what);

// Reads layers with experts, "0-3,7", ascending. Errors: experts.layer.
Result<std::vector<int64_t>> parse_expert_layers(std::string_view text, const ExpertGrid& grid,
                                                 const std::string& what);

// One line that parse_expert_sets() reads; layers in a row with the same experts share an item.
std::string to_string(const ExpertSets& sets);

// What a mask leaves to choose from in each of these layers, of `slots` that begin with the experts
// and end with null slots, which stay: ascending, and none for a layer that has all of its experts.
// Empty where that is so of all layers.
std::vector<std::vector<int64_t>> kept_slots(const ExpertSets& mask,
                                             const std::vector<int64_t>& layers, int64_t experts,
                                             int64_t slots);

// The experts that both have, in each layer.
ExpertSets in_both(const ExpertSets& a, const ExpertSets& b);

// Checks that a token can still choose as many experts as the model's router does. Errors:
// experts.too_few (a layer has fewer experts than a token chooses, fewer groups with experts than
// it keeps, or fewer experts in the groups that it may keep than it chooses).
Status check_enough(const ExpertSets& sets, const ExpertGrid& grid, const std::string& what);

// Reads a mask from a flag's value: text, or @FILE, which holds it. Errors: experts.file, those of
// parse_expert_sets() and check_enough(), which name the flag or the file.
Result<ExpertSets> read_expert_mask(const std::string& value, const ExpertGrid& grid,
                                    const std::string& flag);

}  // namespace moec
