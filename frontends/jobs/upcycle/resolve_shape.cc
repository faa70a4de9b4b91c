#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frontends/jobs/upcycle/plan_experts.h"

namespace moec {
namespace {

constexpr int64_t kUsualGroups = 8, kUsualPicks = 2;

bool is_dense_layer(const LayerConfig& layer) { return layer.feeds() && !layer.moe; }

Result<std::vector<bool>> chosen_layers(const std::vector<int64_t>& asked,
                                        const ModelConfig& dense) {
  std::vector<bool> chosen(dense.layers.size());
  if (asked.empty())
    std::transform(dense.layers.begin(), dense.layers.end(), chosen.begin(), is_dense_layer);
  for (const int64_t layer : asked) {
    if (layer < 0 || layer >= std::ssize(dense.layers))
      return fail("upcycle.layers",
                  fmt::format("there is no layer {}: the model has {}", layer, dense.layers.size()),
                  fmt::format("give layers from 0 to {}, or all", dense.layers.size() - 1));
    if (!is_dense_layer(at(dense.layers, layer)))
      return fail("upcycle.layers", fmt::format("layer {} has no dense feed-forward part", layer),
                  "leave it out of --layers");
    chosen[static_cast<size_t>(layer)] = true;
  }
  if (std::find(chosen.begin(), chosen.end(), true) == chosen.end())
    return fail("upcycle.layers", "the model has no dense feed-forward part");
  return chosen;
}

// G, and E where it follows from it.
Status resolve_groups(const ExpertShape& asked, const ExpertStart& start, int64_t models,
                      ResolvedShape& shape) {
  const bool is_partition = start.init == ExpertInit::partition;
  const bool whole = start.init == ExpertInit::copy;
  shape.granularity = asked.granularity > 0                     ? asked.granularity
                      : start.init == ExpertInit::virtual_group ? 2
                                                                : 1;
  if (whole && shape.granularity > 1)
    return fail("upcycle.granularity",
                fmt::format("copies are whole, {} experts a group are parts", shape.granularity),
                "give --init virtual-group, or --granularity 1");
  if (is_partition) {
    shape.experts = asked.experts > 0 ? asked.experts : std::max(asked.granularity, kUsualGroups);
    if (asked.granularity > 0 && asked.granularity != shape.experts)
      return fail("upcycle.granularity",
                  fmt::format("a partition has one group: its {} experts are as many parts, not {}",
                              shape.experts, asked.granularity),
                  "leave out --granularity, or give --init virtual-group");
    shape.granularity = shape.experts;
    return {};
  }
  const int64_t usual = models > 1 ? models : kUsualGroups;
  shape.experts = asked.experts > 0 ? asked.experts : usual * shape.granularity;
  return {};
}

Status check_experts(const ResolvedShape& shape, int64_t models) {
  if (shape.experts % shape.granularity != 0)
    return fail("upcycle.experts",
                fmt::format("{} experts are no whole number of groups of {}", shape.experts,
                            shape.granularity),
                "give a multiple of --granularity as --experts");
  if (shape.groups() % models != 0)
    return fail("upcycle.experts",
                fmt::format("{} groups of experts cannot come from {} models in equal numbers",
                            shape.groups(), models),
                fmt::format("give a multiple of {} as --experts", models * shape.granularity));
  return {};
}

Status resolve_top_k(const ExpertShape& asked, const ExpertStart& start, ResolvedShape& shape) {
  const bool is_partition = start.init == ExpertInit::partition;
  const int64_t usual =
      is_partition ? shape.experts : std::min(kUsualPicks, shape.groups()) * shape.granularity;
  shape.top_k = asked.top_k > 0 ? asked.top_k : usual;
  if (shape.top_k > shape.experts)
    return fail("upcycle.top_k",
                fmt::format("a token cannot pick {} of {} experts", shape.top_k, shape.experts),
                "give at most --experts as --top-k");
  // A partition without a granularity of its own has no groups that would be split.
  if (shape.top_k % shape.granularity != 0 && (!is_partition || asked.granularity > 0))
    return fail(
        "upcycle.top_k",
        fmt::format("{} picks are no whole number of groups of {}", shape.top_k, shape.granularity),
        fmt::format("give a multiple of {} as --top-k", shape.granularity));
  return {};
}

Status resolve_widths(const ExpertShape& asked, const ExpertStart& start, ResolvedShape& shape) {
  shape.shared_width = asked.shared_width;
  if (shape.shared_width >= shape.dense_ff)
    return fail("upcycle.shared_width",
                fmt::format("a shared expert of {} units leaves none of the {} to routed experts",
                            shape.shared_width, shape.dense_ff),
                "give a smaller --shared-width");
  const int64_t routed = shape.dense_ff - shape.shared_width;
  if (routed % shape.granularity != 0)
    return fail(
        "upcycle.granularity",
        fmt::format("{} hidden units cannot be cut into {} equal parts", routed, shape.granularity),
        "choose another --granularity or --shared-width");
  shape.expert_ff = routed / shape.granularity;
  if (start.init != ExpertInit::drop) return {};
  if (!(start.drop > 0 && start.drop <= 1))
    return fail("upcycle.drop", fmt::format("{} is no share of the units", start.drop),
                "give --init drop:R with R above 0 and at most 1");
  shape.redrawn =
      static_cast<int64_t>(std::floor(start.drop * static_cast<double>(shape.expert_ff)));
  return {};
}

void misfit_of_layers(const ResolvedShape& shape, const ModelConfig& dense, const TargetArch& arch,
                      std::vector<std::string>& found) {
  const auto is_chosen = [](bool chosen) { return chosen; };
  const auto& layers = shape.layers;
  switch (arch.layers) {
    case LayerChoice::all:
      if (!std::all_of(layers.begin(), layers.end(), is_chosen))
        found.emplace_back("layers without experts");
      return;
    case LayerChoice::last:
      if (!std::is_sorted(layers.begin(), layers.end()))
        found.emplace_back("layers without experts behind those that have them");
      return;
    case LayerChoice::apart:
      for (size_t i = 0; i < layers.size(); ++i)
        if (layers[i] && dense.layers[i].parts != LayerParts::feed_forward)
          return found.emplace_back("experts in a layer that mixes tokens as well"), void();
      return;
    case LayerChoice::any:
      return;
  }
}

}  // namespace

Result<ResolvedShape> resolve_shape(const UpcycleOptions& options, const ModelConfig& dense,
                                    int64_t models) {
  ResolvedShape shape;
  shape.dense_ff = dense.mlp.ff;
  MOEC_ASSIGN(shape.layers, chosen_layers(options.shape.layers, dense));
  MOEC_TRY(resolve_groups(options.shape, options.start, models, shape));
  MOEC_TRY(check_experts(shape, models));
  MOEC_TRY(resolve_top_k(options.shape, options.start, shape));
  MOEC_TRY(resolve_widths(options.shape, options.start, shape));
  return shape;
}

std::vector<std::string> shape_misfits(const ResolvedShape& shape, const ModelConfig& dense,
                                       const ExpertStart& start, const TargetArch& arch) {
  std::vector<std::string> found;
  misfit_of_layers(shape, dense, arch, found);
  if (shape.shared_width > 0 && arch.shared == SharedForm::none)
    found.emplace_back("a shared expert");
  if (arch.shared == SharedForm::experts && shape.shared_width % shape.expert_ff != 0)
    found.push_back(
        fmt::format("a shared expert of {} units beside experts of {}: it needs a "
                    "whole number of them",
                    shape.shared_width, shape.expert_ff));
  if (!start.normalised && !arch.unnormalised)
    found.emplace_back("routing weights that are not normalised");
  return found;
}

int64_t shared_units(const ResolvedShape& shape, const TargetArch& arch) {
  if (shape.shared_width > 0) return shape.shared_width;
  switch (arch.shared) {
    case SharedForm::none:
    case SharedForm::optional:
      return 0;
    case SharedForm::experts:
      return shape.expert_ff;
    case SharedForm::always:
    case SharedForm::gated:
      return kIdleSharedUnits;
  }
  return 0;
}

}  // namespace moec
