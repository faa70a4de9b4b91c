// The experts of an export, from which masks take some.
#pragma once

#include "backends/manifest/manifest.h"
#include "ir/experts/expert_sets.h"

namespace moec {

// No layers where the model has no experts. Its top_k is the most that a token
// chooses in a layer in the first form of top-k.
ExpertGrid expert_grid(const Manifest& manifest);

// The mask that the graphs of the export have. Errors: those of parse_expert_sets().
Result<ExpertSets> expert_mask_of(const Manifest& manifest);

// Those that a node holds; all of them where the folder is no node. Errors: those of
// parse_expert_sets().
Result<ExpertSets> node_experts_of(const Manifest& manifest);

// How tokens choose experts, for people: "routing rank (exact)", or "no experts".
std::string routing_text(const Manifest& manifest);

// What a node holds, for people: its place among the stages, its layers and its experts.
std::string node_text(const manifest::Node& node);

}  // namespace moec
