// Forms of one model that differ in how many experts a token takes: adaptive top-k. Their graphs
// share their weights, so that a runtime can choose one for each step, or where routers are shards
// of their own for each layer and token.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/experts/expert_sets.h"

namespace moec {

struct TopKForm {
  std::string name;                   // "2", or where layers differ "L0-3:1;L4-7:2"
  std::map<int64_t, int64_t> layers;  // each MoE layer → how many experts a token takes there
  // Those of some MoE layers, in their order.
  std::vector<int64_t> of(const std::vector<int64_t>& some) const;
  int64_t largest() const;
  bool operator==(const TopKForm&) const = default;
};

// The form in which every layer takes k experts.
TopKForm uniform_form(const ExpertGrid& grid, int64_t k);

// The text that names the layers' numbers: one number where all are equal, else items of runs of
// layers.
std::string to_string(const std::map<int64_t, int64_t>& layers);

// Reads forms as people write them, separated by commas:
//
//   1,2                 two forms, in which each token takes 1 expert, and 2
//   L0-3:1;L4-:2        one form by layers (LExI, arXiv 2509.02753): 1 in layers 0 to 3, 2 in all
//                       that follow
//   2,L0-3:1;*:2        two forms; * stands for all MoE layers that no other item names
//
// The form in which each layer takes grid.top_k experts, those of the checkpoint, comes first where
// it is there, the others follow in the order of the text. `what` names the text in messages.
// Errors:
//   top_k.no_experts  the model has no MoE layer
//   top_k.item        another form of text
//   top_k.count       k is 0, or above the number of experts
//   top_k.groups      k is above the number of experts in the groups that a token keeps
//   top_k.layer       a layer without experts, or none of the model's
//   top_k.twice       two items of a form name one layer
//   top_k.missing     a form leaves out a layer
//   top_k.repeated    two forms are the same
Result<std::vector<TopKForm>> parse_top_k_forms(std::string_view text, const ExpertGrid& grid,
                                                const std::string& what);

// The forms whose graphs of these MoE layers differ from those of all forms before them, by their
// places.
std::vector<size_t> distinct_forms(const std::vector<TopKForm>& forms,
                                   const std::vector<int64_t>& layers);

// What tells apart the graphs of a shard whose layers take so many experts, in names of files and
// functions: "k2", or "k1x4_2x28" for four layers of 1 and 28 of 2.
std::string top_k_label(const std::vector<int64_t>& top_k);

}  // namespace moec
