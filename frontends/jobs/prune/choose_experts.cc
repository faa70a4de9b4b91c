#include "frontends/jobs/prune/choose_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/base/at.h"

namespace moec {
namespace {

// The scores of a layer's experts, ascending by expert; empty if they were not measured.
std::vector<double> scores_of(const LayerProfile& layer, PruneScore by) {
  switch (by) {
    case PruneScore::saliency:
      return layer.saliency;
    case PruneScore::mass:
      return layer.mass;
    case PruneScore::count:
      return {layer.selections.begin(), layer.selections.end()};
    case PruneScore::norm:
      break;
  }
  return layer.output_norm;
}

bool has_score(const ExpertProfile& profile, PruneScore by) {
  return std::none_of(profile.layers.begin(), profile.layers.end(),
                      [&](const LayerProfile& layer) { return scores_of(layer, by).empty(); });
}

// The `keep` experts with the highest scores, the same number from each router group; ascending.
std::vector<int64_t> best_experts(const std::vector<double>& scores, int64_t keep, int64_t groups) {
  const int64_t size = std::ssize(scores) / groups, each = keep / groups;
  std::vector<int64_t> kept;
  for (int64_t group = 0; group < groups; ++group) {
    std::vector<int64_t> experts(static_cast<size_t>(size));
    std::iota(experts.begin(), experts.end(), group * size);
    // Stable: the lower index wins ties, as in routers.
    std::stable_sort(experts.begin(), experts.end(),
                     [&](int64_t a, int64_t b) { return at(scores, a) > at(scores, b); });
    kept.insert(kept.end(), experts.begin(), experts.begin() + each);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

ExpertSets best_sets(const ExpertProfile& profile, PruneScore by, int64_t keep, int64_t groups) {
  ExpertSets sets;
  for (const LayerProfile& layer : profile.layers)
    sets.layers[layer.layer] = best_experts(scores_of(layer, by), keep, groups);
  return sets;
}

Status check_keep(int64_t keep, const ExpertGrid& grid, const Router& router) {
  if (keep < 1 || keep >= grid.experts)
    return fail("prune.experts",
                fmt::format("{} experts were requested, but a layer has {}", keep, grid.experts),
                fmt::format("keep 1 to {} experts", grid.experts - 1));
  if (keep < grid.top_k)
    return fail(
        "prune.top_k",
        fmt::format("a token selects {} experts, but a layer would keep {}", grid.top_k, keep),
        fmt::format("keep at least {} experts", grid.top_k));
  if (grid.groups <= 1) return {};
  if (keep % grid.groups != 0)
    return fail(
        "prune.groups",
        fmt::format("{} experts do not divide into the router's {} groups", keep, grid.groups),
        fmt::format("keep a multiple of {} experts", grid.groups));
  const int64_t each = keep / grid.groups;
  if (const int64_t least = experts_of_group_score(router.group_score); each < least)
    return fail("prune.groups",
                fmt::format("the router ranks groups by their {} best scores, but a group would "
                            "keep {} experts",
                            least, each),
                fmt::format("keep at least {} experts", least * grid.groups));
  if (each * grid.groups_kept < grid.top_k)
    return fail("prune.groups",
                fmt::format("a token selects {} experts from {} groups, which would keep {}",
                            grid.top_k, grid.groups_kept, each * grid.groups_kept),
                "keep more experts");
  return {};
}

// Number of experts of each router group.
std::vector<int64_t> group_counts(const std::vector<int64_t>& experts, const ExpertGrid& grid) {
  const int64_t groups = std::max<int64_t>(grid.groups, 1), size = grid.experts / groups;
  std::vector<int64_t> counts(static_cast<size_t>(groups));
  for (const int64_t expert : experts) ++at(counts, expert / size);
  return counts;
}

// Completes the mask: adds the layers that keep all experts. Checks that all layers and groups keep
// the same number.
Result<ExpertSets> equal_sets(const std::string& text, const ExpertGrid& grid) {
  MOEC_ASSIGN(ExpertSets sets, read_expert_mask(text, grid, "--expert-mask"));
  std::vector<int64_t> all(static_cast<size_t>(grid.experts));
  std::iota(all.begin(), all.end(), 0);
  for (const int64_t layer : grid.layers) sets.layers.try_emplace(layer, all);
  const int64_t first = grid.layers.front();
  const std::vector<int64_t> wanted = group_counts(sets.layers[first], grid);
  for (const auto& [layer, experts] : sets.layers) {
    const std::vector<int64_t> counts = group_counts(experts, grid);
    if (std::ssize(experts) != std::ssize(sets.layers[first]))
      return fail("prune.counts",
                  fmt::format("layer {} keeps {} experts and layer {} keeps {}, but config.json "
                              "has one number",
                              first, sets.layers[first].size(), layer, experts.size()),
                  "keep the same number in each layer");
    for (const int64_t count : counts)
      if (count != wanted.front())
        return fail("prune.counts",
                    fmt::format("layer {}: the router's groups keep {} and {} experts", layer,
                                wanted.front(), count),
                    fmt::format("keep the same number in each of the {} groups", grid.groups));
  }
  return sets;
}

ScoreOverlap overlap_of(const ExpertSets& kept, const ExpertSets& other, PruneScore by) {
  ScoreOverlap overlap{.by = by};
  int64_t same = 0, all = 0;
  for (const auto& [layer, experts] : kept.layers) {
    const int64_t common =
        std::count_if(experts.begin(), experts.end(),
                      [&, layer = layer](int64_t expert) { return other.has(layer, expert); });
    if (overlap.fewest_layer < 0 || common < overlap.fewest) {
      overlap.fewest = common;
      overlap.fewest_layer = layer;
    }
    same += common;
    all += std::ssize(experts);
  }
  overlap.same = static_cast<double>(same) / static_cast<double>(all);
  return overlap;
}

// Mean over layers of the share of the score's sum that the kept experts have. Layers without any
// score do not count.
std::optional<double> kept_sum(const ExpertProfile& profile, const ExpertSets& kept,
                               PruneScore by) {
  double shares = 0;
  int64_t layers = 0;
  for (const LayerProfile& layer : profile.layers) {
    const std::vector<double> scores = scores_of(layer, by);
    const double all = std::accumulate(scores.begin(), scores.end(), 0.0);
    if (!(all > 0)) continue;
    double sum = 0;
    for (const int64_t expert : kept.layers.at(layer.layer)) sum += at(scores, expert);
    shares += sum / all;
    ++layers;
  }
  return layers == 0 ? std::nullopt : std::optional(shares / static_cast<double>(layers));
}

void describe(const ExpertProfile& profile, int64_t groups, PruneChoice& choice) {
  for (size_t i = 0; i < enum_count<PruneScore>; ++i)
    if (const auto by = static_cast<PruneScore>(i); has_score(profile, by))
      choice.overlaps.push_back(
          overlap_of(choice.kept, best_sets(profile, by, choice.count, groups), by));
  choice.selections = kept_sum(profile, choice.kept, PruneScore::count);
  if (has_score(profile, PruneScore::mass))
    choice.mass = kept_sum(profile, choice.kept, PruneScore::mass);
  for (const LayerProfile& layer : profile.layers)
    for (const int64_t expert : choice.kept.layers.at(layer.layer))
      choice.unused += at(layer.selections, expert) == 0;
}

}  // namespace

Result<PruneChoice> choose_experts(const PruneOptions& options, const ExpertGrid& grid,
                                   const Router& router,
                                   const std::optional<ExpertProfile>& profile) {
  PruneChoice choice;
  const int64_t groups = std::max<int64_t>(grid.groups, 1);
  if (!options.mask.empty()) {
    MOEC_ASSIGN(choice.kept, equal_sets(options.mask, grid));
    choice.count = std::ssize(choice.kept.layers.begin()->second);
    MOEC_TRY(check_keep(choice.count, grid, router));
  } else {
    choice.count = options.keep;
    MOEC_TRY(check_keep(choice.count, grid, router));
    if (!profile)
      return fail("prune.experts", "a number of experts needs a profile to choose them by",
                  "run moec analyze and pass its folder with --profile, or name the experts with "
                  "--expert-mask");
    if (!has_score(*profile, options.by))
      return fail("prune.score",
                  fmt::format("the profile has no {} of experts", enum_name(options.by)),
                  "analyze the checkpoint, or an export with --experts unrolled; or pass --by mass "
                  "or count",
                  {.file = options.profile});
    choice.kept = best_sets(*profile, options.by, choice.count, groups);
  }
  if (profile) describe(*profile, groups, choice);
  return choice;
}

}  // namespace moec
