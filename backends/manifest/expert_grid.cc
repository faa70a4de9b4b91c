#include "backends/manifest/expert_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace moec {

ExpertGrid expert_grid(const Manifest& manifest) {
  ExpertGrid grid;
  std::set<int64_t> layers;
  // All MoE layers of a ModelConfig share its router settings, so any shard with routing has them.
  for (const manifest::Shard& shard : manifest.shards) {
    if (!shard.routing) continue;
    layers.insert(shard.moe_layers.begin(), shard.moe_layers.end());
    const Router& router = shard.routing->router;
    grid.experts = shard.routing->experts;
    grid.top_k = router.top_k;
    grid.groups = router.groups;
    grid.groups_kept = router.groups_kept;
  }
  // The default variant can have a different k in each layer; callers need the largest.
  if (manifest.top_k && !manifest.top_k->forms.empty())
    for (const manifest::TopKLayer& layer : manifest.top_k->forms.front().layers)
      grid.top_k = std::max(grid.top_k, layer.top_k);
  // Ascending and without duplicates, so callers can use a binary search.
  grid.layers.assign(layers.begin(), layers.end());
  return grid;
}

Result<ExpertSets> node_experts_of(const Manifest& manifest) {
  // A folder that is not a node has all experts, and empty sets restrict no layer.
  return parse_expert_sets(manifest.node ? manifest.node->experts : "", expert_grid(manifest),
                           "node.experts");
}

std::string routing_text(const Manifest& manifest) {
  if (expert_grid(manifest).layers.empty()) return "no experts";
  return fmt::format("routing {} ({})", manifest.build.routing,
                     manifest.build.exact ? "exact" : "INEXACT");
}

std::string node_text(const manifest::Node& node) {
  return fmt::format("node {}, stage {} of {}: layers {} to {}, experts {}", node.name, node.stage,
                     node.stages, node.first_layer, node.first_layer + node.layers - 1,
                     node.experts.empty() ? "all" : node.experts);
}

Result<ExpertSets> expert_mask_of(const Manifest& manifest) {
  return parse_expert_sets(manifest.build.expert_mask, expert_grid(manifest), "build.expert_mask");
}

Result<ExpertSets> held_experts_of(const Manifest& manifest) {
  MOEC_ASSIGN(ExpertSets held, node_experts_of(manifest));
  if (!manifest.build.drop_masked) return held;
  MOEC_ASSIGN(const ExpertSets mask, expert_mask_of(manifest));
  return in_both(held, mask);
}

}  // namespace moec
