#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frontends/jobs/upcycle/plan_experts.h"

namespace moec {
namespace {

// The defaults of the README: 8 groups, of which a token picks two.
constexpr int64_t kUsualGroups = 8, kUsualPicks = 2;

bool is_dense_layer(const LayerConfig& layer) { return layer.feeds() && !layer.moe; }

Result<std::vector<bool>> chosen_layers(const std::vector<int64_t>& asked,
                                        const ModelConfig& dense) {
  std::vector<bool> chosen(dense.layers.size());
  // Layers without a feed-forward part cannot get experts.
  if (asked.empty())
    std::transform(dense.layers.begin(), dense.layers.end(), chosen.begin(), is_dense_layer);
  for (const int64_t layer : asked) {
    if (layer < 0 || layer >= std::ssize(dense.layers))
      return fail(
          "upcycle.layers",
          fmt::format("layer {} does not exist: the model has {} layers", layer,
                      dense.layers.size()),
          fmt::format("pass --layers from 0 to {}, or --layers all", dense.layers.size() - 1));
    if (!is_dense_layer(at(dense.layers, layer)))
      return fail("upcycle.layers", fmt::format("layer {} has no dense feed-forward part", layer),
                  "leave it out of --layers");
    chosen[static_cast<size_t>(layer)] = true;
  }
  if (std::find(chosen.begin(), chosen.end(), true) == chosen.end())
    return fail("upcycle.layers", "the model has no dense feed-forward part");
  return chosen;
}

// Resolves the granularity, and the number of experts if it is not given.
Status resolve_groups(const ExpertShape& asked, const ExpertStart& start, int64_t models,
                      ResolvedShape& shape) {
  const bool is_partition = start.init == ExpertInit::partition;
  const bool whole = start.init == ExpertInit::copy;
  // A granularity of 1 would make virtual-group equal to copy.
  shape.granularity = asked.granularity > 0                     ? asked.granularity
                      : start.init == ExpertInit::virtual_group ? 2
                                                                : 1;
  if (whole && shape.granularity > 1)
    return fail("upcycle.granularity",
                fmt::format("--init copy keeps experts whole, but --granularity {} cuts them",
                            shape.granularity),
                "pass --init virtual-group, or --granularity 1");
  // A partition is one group of all experts, so --granularity can only repeat the number.
  if (is_partition) {
    shape.experts = asked.experts > 0 ? asked.experts : std::max(asked.granularity, kUsualGroups);
    if (asked.granularity > 0 && asked.granularity != shape.experts)
      return fail(
          "upcycle.granularity",
          fmt::format(
              "a partition of {} experts has the same number of parts, but --granularity is {}",
              shape.experts, asked.granularity),
          "leave out --granularity, or pass --init virtual-group");
    shape.granularity = shape.experts;
    return {};
  }
  // One group per model, so that each model becomes an expert.
  const int64_t usual = models > 1 ? models : kUsualGroups;
  shape.experts = asked.experts > 0 ? asked.experts : usual * shape.granularity;
  return {};
}

Status check_experts(const ResolvedShape& shape, int64_t models) {
  if (shape.experts % shape.granularity != 0)
    return fail("upcycle.experts",
                fmt::format("{} experts are not a multiple of the group size {}", shape.experts,
                            shape.granularity),
                "pass a multiple of --granularity as --experts");
  if (shape.groups() % models != 0)
    return fail("upcycle.experts",
                fmt::format("{} groups of experts cannot be divided evenly among {} models",
                            shape.groups(), models),
                fmt::format("pass a multiple of {} as --experts", models * shape.granularity));
  return {};
}

Status resolve_top_k(const ExpertShape& asked, const ExpertStart& start, ResolvedShape& shape) {
  const bool is_partition = start.init == ExpertInit::partition;
  // min() limits the default to the number of groups, which may be 1.
  const int64_t usual =
      is_partition ? shape.experts : std::min(kUsualPicks, shape.groups()) * shape.granularity;
  shape.top_k = asked.top_k > 0 ? asked.top_k : usual;
  if (shape.top_k > shape.experts)
    return fail("upcycle.top_k",
                fmt::format("a token cannot pick {} of {} experts", shape.top_k, shape.experts),
                "pass a --top-k of at most --experts");
  // In a partition without --granularity, there are no groups that a pick could split.
  if (shape.top_k % shape.granularity != 0 && (!is_partition || asked.granularity > 0))
    return fail("upcycle.top_k",
                fmt::format("{} picks are not a multiple of the group size {}", shape.top_k,
                            shape.granularity),
                fmt::format("pass a multiple of {} as --top-k", shape.granularity));
  return {};
}

Status resolve_widths(const ExpertShape& asked, const ExpertStart& start, ResolvedShape& shape) {
  shape.shared_width = asked.shared_width;
  if (shape.shared_width >= shape.dense_ff)
    return fail("upcycle.shared_width",
                fmt::format("a shared expert of {} units leaves none of the {} for routed experts",
                            shape.shared_width, shape.dense_ff),
                "pass a smaller --shared-width");
  const int64_t routed = shape.dense_ff - shape.shared_width;
  if (routed % shape.granularity != 0)
    return fail(
        "upcycle.granularity",
        fmt::format("{} hidden units cannot be cut into {} equal parts", routed, shape.granularity),
        "choose another --granularity or --shared-width");
  shape.expert_ff = routed / shape.granularity;
  if (start.init != ExpertInit::drop) return {};
  // The negation also rejects NaN.
  if (!(start.drop > 0 && start.drop <= 1))
    return fail("upcycle.drop",
                fmt::format("the share {} of redrawn units is outside (0, 1]", start.drop),
                "pass --init drop:R with R above 0 and at most 1");
  // Rounds down, so that a share below 1 keeps at least one unit.
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
      // false < true: sorted means that no dense layer follows a layer with experts.
      if (!std::is_sorted(layers.begin(), layers.end()))
        found.emplace_back("layers without experts after layers with experts");
      return;
    case LayerChoice::apart:
      for (size_t i = 0; i < layers.size(); ++i)
        // In such an architecture, a layer is either a mixer or a feed-forward part.
        if (layers[i] && dense.layers[i].parts != LayerParts::feed_forward)
          return found.emplace_back("experts in a layer that also mixes tokens"), void();
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
  // The order matters: each step uses sizes of the steps before.
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
        fmt::format("a shared expert of {} units, which is not a multiple of the expert "
                    "width {}",
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
      // The smallest width that the architecture allows is one routed expert.
      return shape.expert_ff;
    case SharedForm::always:
    case SharedForm::gated:
      return kIdleSharedUnits;
  }
  return 0;
}

}  // namespace moec
