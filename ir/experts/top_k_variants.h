// Variants of one model that differ in the number of experts per token: adaptive top-k. Their
// graphs share weights, so a runtime can choose a variant per step, or per layer and token if
// routers have separate shards.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/experts/expert_sets.h"

namespace moec {

struct TopKVariant {
  std::string name;                   // "2", or "L0-3:1;L4-7:2" if layers differ
  std::map<int64_t, int64_t> layers;  // each MoE layer → its experts per token
  // Returns the experts per token of the layers `some`, in the order of `some`.
  std::vector<int64_t> of(const std::vector<int64_t>& some) const;
  int64_t largest() const;
  bool operator==(const TopKVariant&) const = default;
};

// The variant with k experts per token in every layer.
TopKVariant uniform_variant(const ExpertGrid& grid, int64_t k);

// Returns the text of a variant: one number if all layers have the same k, else one item per run of
// layers with equal k.
std::string to_string(const std::map<int64_t, int64_t>& layers);

// Parses comma-separated variants:
//
//   1,2                 two variants: 1 expert per token, and 2
//   L0-3:1;L4-:2        one variant by layers (LExI, arXiv 2509.02753): 1 in layers 0 to 3, 2 in
//                       all later layers
//   2,L0-3:1;*:2        two variants; * is every MoE layer that no other item names
//
// The variant with grid.top_k, the checkpoint's top-k, in every layer comes first if it is listed;
// the others keep the order of the text. `what` names the text in messages. Errors:
//   top_k.no_experts  the model has no MoE layer
//   top_k.item        malformed item
//   top_k.count       k is 0, or above the number of experts
//   top_k.groups      k is above the number of experts in the groups that a token keeps
//   top_k.layer       not an MoE layer of the model
//   top_k.twice       two items of a variant name one layer
//   top_k.missing     a variant omits a layer
//   top_k.repeated    two variants are equal
Result<std::vector<TopKVariant>> parse_top_k_variants(std::string_view text, const ExpertGrid& grid,
                                                      const std::string& what);

// Returns the indices of the variants that differ from every earlier variant in these layers. Only
// they need a graph.
std::vector<size_t> distinct_forms(const std::vector<TopKVariant>& forms,
                                   const std::vector<int64_t>& layers);

// Returns the label of a top-k variant in names of files and functions: "k2", or "k1x4_2x28" for
// four layers with 1 expert per token and 28 with 2.
std::string top_k_label(const std::vector<int64_t>& top_k);

}  // namespace moec
