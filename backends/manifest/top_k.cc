#include "backends/manifest/top_k.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "backends/manifest/expert_grid.h"

namespace moec {

std::vector<TopKVariant> top_k_variants(const Manifest& manifest) {
  std::vector<TopKVariant> forms;
  if (!manifest.top_k) return forms;
  for (const manifest::TopKVariant& form : manifest.top_k->forms) {
    TopKVariant& made = forms.emplace_back();
    made.name = form.name;
    for (const manifest::TopKLayer& layer : form.layers) made.layers[layer.layer] = layer.top_k;
  }
  return forms;
}

ExpertGrid top_k_grid(const Manifest& manifest) {
  ExpertGrid grid = expert_grid(manifest);
  if (!manifest.top_k) return grid;
  // Variants list all MoE layers of the model, but the shards of a cluster node can have fewer.
  grid.layers.clear();
  for (const manifest::TopKLayer& layer : manifest.top_k->forms.front().layers)
    grid.layers.push_back(layer.layer);
  grid.top_k = manifest.top_k->own;
  return grid;
}

size_t graph_index(const manifest::Shard& shard, size_t width, size_t widths,
                   const TopKVariant* form) {
  if (!form) return width;
  // Shards that do not route have no `top_k` in their graphs, so they use the plain index.
  for (size_t i = width; i < shard.widths.size(); i += widths)
    if (shard.widths[i].top_k && *shard.widths[i].top_k == form->of(shard.moe_layers)) return i;
  return width;
}

std::vector<size_t> graphs_of_width(const manifest::Shard& shard, size_t width, size_t widths) {
  std::vector<size_t> graphs;
  for (size_t i = width; i < shard.widths.size(); i += widths) graphs.push_back(i);
  return graphs;
}

bool is_own(const manifest::TopK& top_k, const manifest::TopKVariant& form) {
  return std::all_of(form.layers.begin(), form.layers.end(),
                     [&](const manifest::TopKLayer& layer) { return layer.top_k == top_k.own; });
}

std::string describe_forms(const Manifest& manifest) {
  if (!manifest.top_k) return {};
  std::vector<std::string> names;
  for (const manifest::TopKVariant& form : manifest.top_k->forms) names.push_back(form.name);
  std::string text = fmt::format("{}", fmt::join(names, ", "));
  if (!is_own(*manifest.top_k, manifest.top_k->forms.front()))
    // Shows users of the default variant that its k differs from the checkpoint's.
    text += fmt::format(" (the checkpoint's own is {})", manifest.top_k->own);
  return text;
}

}  // namespace moec
