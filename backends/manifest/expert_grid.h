// The experts of an export, and the sets of them that masks and nodes select.
#pragma once

#include "backends/manifest/manifest.h"
#include "ir/experts/expert_sets.h"

namespace moec {

// Returns the grid of the export's experts; it has no layers if the model has no experts. `top_k`
// is the maximum k of a layer in the default top-k variant.
ExpertGrid expert_grid(const Manifest& manifest);

// Returns the expert mask that the export's graphs apply. Errors: those of parse_expert_sets().
Result<ExpertSets> expert_mask_of(const Manifest& manifest);

// Returns the experts that the folder's shards contain: those of its node, without masked ones if
// they were dropped. Errors: those of parse_expert_sets().
Result<ExpertSets> held_experts_of(const Manifest& manifest);

// Returns the experts of the node; all experts if the folder is not a node. Errors: those of
// parse_expert_sets().
Result<ExpertSets> node_experts_of(const Manifest& manifest);

// Returns a description of the routing for users: "routing rank (exact)", or "no experts".
std::string routing_text(const Manifest& manifest);

// Returns a description of a node for users: its stage, layers and experts.
std::string node_text(const manifest::Node& node);

}  // namespace moec
