// Checks the top-k variants: their values of k, the rules that select them, and their graphs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "backends/manifest/check_parts.h"
#include "backends/manifest/expert_grid.h"
#include "backends/manifest/top_k.h"

namespace moec::manifest {
namespace {

bool is_share(double number) { return number > 0 && number <= 1; }

// Returns true if the variant's layers are ascending, equal those of the first variant, and have
// valid values of k.
bool has_layers(const TopKVariant& form, const TopKVariant& first, const ExpertGrid& grid) {
  if (form.layers.empty() || form.layers.size() != first.layers.size()) return false;
  int64_t before = -1;
  for (size_t i = 0; i < form.layers.size(); ++i) {
    const TopKLayer& layer = form.layers[i];
    if (layer.layer <= before || layer.layer != first.layers[i].layer) return false;
    if (layer.top_k < 1 || layer.top_k > grid.experts) return false;
    before = layer.layer;
  }
  return true;
}

// Returns true if the variant has every MoE layer of the shards.
bool covers(const TopKVariant& form, const ExpertGrid& grid) {
  return std::all_of(grid.layers.begin(), grid.layers.end(), [&](int64_t layer) {
    return std::any_of(form.layers.begin(), form.layers.end(),
                       [&](const TopKLayer& of) { return of.layer == layer; });
  });
}

bool check_forms(const Manifest& manifest, Findings& findings) {
  const TopK& top_k = *manifest.top_k;
  const ExpertGrid grid = expert_grid(manifest);
  if (!findings.require(!top_k.forms.empty() && top_k.own >= 1 && top_k.own <= grid.experts,
                        "manifest.top_k", {},
                        "top_k has {} variants for a model with k = {} of {} experts",
                        top_k.forms.size(), top_k.own, grid.experts))
    return false;
  std::set<std::string> names;
  bool fine = true;
  for (const TopKVariant& form : top_k.forms) {
    std::map<int64_t, int64_t> layers;
    for (const TopKLayer& layer : form.layers) layers[layer.layer] = layer.top_k;
    fine &= findings.require(
        has_layers(form, top_k.forms.front(), grid) && covers(form, grid) &&
            form.name == to_string(layers) && form.bytes_active >= 0 && form.macs_active >= 0,
        "manifest.top_k", {},
        "the variant \"{}\" lacks k of a layer, or its name does not match its values of k",
        form.name);
    fine &= findings.require(names.insert(form.name).second, "manifest.top_k", {},
                             "the variant {} appears twice", form.name);
  }
  return fine;
}

void check_policy(const TopK& top_k, Findings& findings) {
  const auto known = [&](const std::string& name) {
    return std::any_of(top_k.forms.begin(), top_k.forms.end(),
                       [&](const TopKVariant& form) { return form.name == name; });
  };
  // form_for_battery() uses the first rule with a limit above the charge, so limits must ascend.
  double before = 0;
  for (const BatteryRule& rule : top_k.battery) {
    findings.require(
        is_share(rule.below) && rule.below > before && known(rule.form), "manifest.top_k", {},
        "the battery rule below {} with the variant \"{}\" is invalid", rule.below, rule.form);
    before = rule.below;
  }
  std::set<std::string_view> categories;
  for (const CategoryRule& rule : top_k.categories)
    findings.require(
        !rule.category.empty() && categories.insert(rule.category).second && known(rule.form),
        "manifest.top_k", {}, "the rule of category \"{}\" with the variant \"{}\" is invalid",
        rule.category, rule.form);
  if (top_k.confidence)
    findings.require(is_share(top_k.confidence->threshold) && top_k.forms.size() > 1,
                     "manifest.top_k", {},
                     "a confidence threshold of {} with {} variants is invalid",
                     top_k.confidence->threshold, top_k.forms.size());
}

// Checks that the graphs are those of the shard's distinct variants in order, once per width, and
// that graphs of different variants differ.
void check_graphs(const Manifest& manifest, const Shard& shard, Findings& findings) {
  const size_t tokens = manifest.build.tokens.size();
  const std::vector<moec::TopKVariant> forms = top_k_variants(manifest);
  // Shards that do not route have the same graph in all variants, so it is stored once.
  const bool routes = moec::routes(shard.kind) && shard.routing.has_value();
  std::vector<std::vector<int64_t>> wanted;
  if (routes)
    for (const size_t i : distinct_forms(forms, shard.moe_layers))
      wanted.push_back(forms[i].of(shard.moe_layers));
  bool fine = shard.widths.size() == tokens * std::max<size_t>(wanted.size(), 1);
  for (size_t i = 0; i < shard.widths.size() && fine; ++i)
    // Graphs are stored variant by variant, each with all widths.
    fine = routes ? shard.widths[i].top_k == wanted[i / tokens] : !shard.widths[i].top_k;
  if (!findings.require(fine, "manifest.top_k", shard.name,
                        "the graphs do not match the variants {}", describe_forms(manifest)))
    return;
  std::set<std::pair<int64_t, std::string_view>> graphs;
  for (const Width& width : shard.widths)
    findings.require(graphs.insert({width.tokens, width.graph}).second, "manifest.top_k",
                     shard.name, "two variants have the same graph for {} tokens", width.tokens);
}

}  // namespace

void check_top_k(const Manifest& manifest, Findings& findings) {
  if (manifest.capacity)
    findings.require(std::isfinite(manifest.capacity->factor) && manifest.capacity->factor > 0,
                     "manifest.number", {}, "the capacity factor is {}, expected a positive number",
                     manifest.capacity->factor);
  if (manifest.top_k) {
    if (!check_forms(manifest, findings)) return;
    check_policy(*manifest.top_k, findings);
    for (const Shard& shard : manifest.shards) check_graphs(manifest, shard, findings);
    return;
  }
  for (const Shard& shard : manifest.shards)
    for (const Width& width : shard.widths)
      findings.require(!width.top_k, "manifest.top_k", shard.name,
                       "a graph has `top_k`, but the export has no top-k variants");
}

bool routes_exactly(const Manifest& manifest) {
  // The first variant is the default variant.
  const bool own = !manifest.top_k || manifest.top_k->forms.empty() ||
                   is_own(*manifest.top_k, manifest.top_k->forms.front());
  return manifest.build.routing != "full_softmax" && own && !manifest.capacity;
}

}  // namespace moec::manifest
