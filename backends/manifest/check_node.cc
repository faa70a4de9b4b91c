// Checks a node's description of its place in the cluster.
#include <algorithm>

#include "backends/manifest/check_parts.h"
#include "backends/manifest/expert_grid.h"

namespace moec::manifest {
namespace {

constexpr int64_t kMaxNodeExperts = 65'536;  // bounds the memory of expert sets, which are lists

// Returns true if the sets are in the form of to_string() and leave enough experts, after the mask,
// for the routers to select.
bool are_sets(const Manifest& manifest) {
  const auto sets = node_experts_of(manifest);
  const auto mask = expert_mask_of(manifest);
  return sets && mask && to_string(*sets) == manifest.node->experts &&
         check_enough(in_both(*sets, *mask), expert_grid(manifest), "node.experts").has_value();
}

}  // namespace

void check_node(const Manifest& manifest, Findings& findings) {
  if (!manifest.node) return;
  const Node& node = *manifest.node;
  const int64_t layers = manifest.model.layers;
  if (!findings.require(expert_grid(manifest).experts <= kMaxNodeExperts, "manifest.node", {},
                        "the node has more than {} experts per layer", kMaxNodeExperts))
    return;
  findings.require(!node.name.empty() && manifest.has_graphs(), "manifest.node", {},
                   "the node has no name or no graphs");
  // Compares a difference, because the sum of two hostile numbers could overflow.
  const bool inside = node.first_layer >= 0 && node.layers >= 1 && node.layers <= layers &&
                      node.first_layer <= layers - node.layers;
  if (!findings.require(inside, "manifest.node", {},
                        "{} layers starting at {} exceed the model's {}", node.layers,
                        node.first_layer, layers))
    return;
  const bool first = node.first_layer == 0, last = manifest.has_head();
  findings.require(node.stage >= 0 && node.stage < node.stages && first == (node.stage == 0) &&
                       last == (node.stage == node.stages - 1),
                   "manifest.node", {}, "stage {} of {} cannot have layers {} to {} of {}",
                   node.stage, node.stages, node.first_layer, manifest.end_layer() - 1, layers);
  findings.require(are_sets(manifest), "manifest.node", {},
                   "node.experts are not valid expert sets: {}", node.experts);
}

}  // namespace moec::manifest
