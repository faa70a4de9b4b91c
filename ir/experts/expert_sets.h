// Sets of experts per layer, as used by masks, groups and nodes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

// The layers and experts of a model, from which sets are drawn.
struct ExpertGrid {
  std::vector<int64_t> layers;  // MoE layers, ascending
  int64_t experts = 0;          // per layer
  int64_t top_k = 0;            // per token and layer
  int64_t groups = 1;  // router groups of consecutive experts; a token keeps the best groups_kept
  int64_t groups_kept = 1;
  bool operator==(const ExpertGrid&) const = default;
};

// MoE layer → its experts, ascending, without duplicates. An absent layer has all of its experts.
struct ExpertSets {
  std::map<int64_t, std::vector<int64_t>> layers;
  bool has(int64_t layer, int64_t expert) const;
  // Number of experts of the layer.
  int64_t count(int64_t layer, const ExpertGrid& grid) const;
  bool operator==(const ExpertSets&) const = default;
};

// MoE layer → the sets of its experts that may share shards, each ascending. An absent layer has
// one set with all experts.
using ExpertPartition = std::map<int64_t, std::vector<std::vector<int64_t>>>;

// Parses sets in the syntax of flags and files:
//
//   L0:0-7;L1:1,3,5      experts 0 to 7 of layer 0, and three of layer 1
//   L0-3:0-7;*:8         the same experts in four layers; * is every layer without an item
//
// Items are separated by semicolons or line breaks; a # starts a comment that ends with the line.
// `what` names the text in messages: a flag or a file. Errors: experts.item (malformed item),
// experts.layer (not an MoE layer of the model), experts.expert (not an expert of the layer),
// experts.twice (two items name one layer).
Result<ExpertSets> parse_expert_sets(std::string_view text, const ExpertGrid& grid,
                                     const std::string& what);

// Parses MoE layers, such as "0-3,7", and returns them in ascending order. Error experts.layer.
Result<std::vector<int64_t>> parse_expert_layers(std::string_view text, const ExpertGrid& grid,
                                                 const std::string& what);

// Returns one line in the syntax of parse_expert_sets(). Consecutive layers with the same experts
// share an item.
std::string to_string(const ExpertSets& sets);

// Returns, for each of `layers`, the slots that the mask keeps, ascending. The first `experts` of
// the `slots` slots are experts; the others are null slots, which are always kept. An entry is
// empty if its layer keeps all experts; the result is empty if all layers do.
std::vector<std::vector<int64_t>> kept_slots(const ExpertSets& mask,
                                             const std::vector<int64_t>& layers, int64_t experts,
                                             int64_t slots);

// Per-layer intersection of `a` and `b`.
ExpertSets in_both(const ExpertSets& a, const ExpertSets& b);

// Checks that the router can still choose grid.top_k experts per token. Error experts.too_few: a
// layer has fewer than top_k experts, fewer than groups_kept groups with experts, or groups_kept
// groups with fewer than top_k experts in total.
Status check_enough(const ExpertSets& sets, const ExpertGrid& grid, const std::string& what);

// Reads a mask from a flag's value: either the text itself or @FILE, a file with the text. Errors,
// which name the flag or the file: experts.file, and those of parse_expert_sets() and
// check_enough().
Result<ExpertSets> read_expert_mask(const std::string& value, const ExpertGrid& grid,
                                    const std::string& flag);

}  // namespace moec
