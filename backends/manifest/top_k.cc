#include "backends/manifest/top_k.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "backends/manifest/expert_grid.h"

namespace moec {

std::vector<TopKForm> top_k_forms(const Manifest& manifest) {
  std::vector<TopKForm> forms;
  if (!manifest.top_k) return forms;
  for (const manifest::TopKForm& form : manifest.top_k->forms) {
    TopKForm& made = forms.emplace_back();
    made.name = form.name;
    for (const manifest::TopKLayer& layer : form.layers) made.layers[layer.layer] = layer.top_k;
  }
  return forms;
}

ExpertGrid top_k_grid(const Manifest& manifest) {
  ExpertGrid grid = expert_grid(manifest);
  if (!manifest.top_k) return grid;
  grid.layers.clear();
  for (const manifest::TopKLayer& layer : manifest.top_k->forms.front().layers)
    grid.layers.push_back(layer.layer);
  grid.top_k = manifest.top_k->own;
  return grid;
}

size_t graph_index(const manifest::Shard& shard, size_t width, size_t widths,
                   const TopKForm* form) {
  if (!form) return width;
  for (size_t i = width; i < shard.widths.size(); i += widths)
    if (shard.widths[i].top_k && *shard.widths[i].top_k == form->of(shard.moe_layers)) return i;
  return width;
}

std::vector<size_t> graphs_of_width(const manifest::Shard& shard, size_t width, size_t widths) {
  std::vector<size_t> graphs;
  for (size_t i = width; i < shard.widths.size(); i += widths) graphs.push_back(i);
  return graphs;
}

bool is_own(const manifest::TopK& top_k, const manifest::TopKForm& form) {
  return std::all_of(form.layers.begin(), form.layers.end(),
                     [&](const manifest::TopKLayer& layer) { return layer.top_k == top_k.own; });
}

std::string describe_forms(const Manifest& manifest) {
  if (!manifest.top_k) return {};
  std::vector<std::string> names;
  for (const manifest::TopKForm& form : manifest.top_k->forms) names.push_back(form.name);
  std::string text = fmt::format("{}", fmt::join(names, ", "));
  if (!is_own(*manifest.top_k, manifest.top_k->forms.front()))
    text += fmt::format(" (the checkpoint's own is {})", manifest.top_k->own);
  return text;
}

}  // namespace moec
