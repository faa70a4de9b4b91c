#include "models/plan/join_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/base/byte_text.h"
#include "models/plan/mlp_elements.h"
#include "models/plan/weight_sizes.h"
#include "models/shards/needed_tensors.h"
#include "models/shards/width_slices.h"

namespace moec {
namespace {

// The bytes of the largest group.
int64_t largest_group(const std::vector<int64_t>& layers, const std::vector<int64_t>& groups) {
  int64_t largest = 0;
  auto begin = layers.begin();
  for (const int64_t count : groups) {
    largest = std::max(largest, std::accumulate(begin, begin + count, int64_t{0}));
    begin += count;
  }
  return largest;
}

ShardCut fit_layers(const ModelConfig& model, const CutOptions& options, BuildOptions& build) {
  const int64_t budget = budget_of(options.budgets, ShardKind::layers).bytes;
  const WeightSizes sizes(model, build);
  std::vector<int64_t> bytes;
  for (const int64_t elements : layer_elements(model, build))
    bytes.push_back(sizes.layer(std::ssize(bytes), elements));
  const auto layers = std::ssize(bytes);
  int64_t least = 0;
  // Descends, so that the first number of layers that fits gives the fewest shards.
  for (int64_t most = layers; most > 0; --most) {
    build.layers_per_shard = most;
    const std::vector<int64_t> groups = layer_groups(layers, build);
    least = largest_group(bytes, groups);
    if (budget > 0 && least > budget) continue;
    const std::string reason = budget == 0
                                   ? "there is no budget"
                                   : fmt::format("at most {} in a budget of {}",
                                                 decimal_bytes(least), decimal_bytes(budget));
    return {ShardKind::layers, std::ssize(groups), reason};
  }
  // 0 keeps the parts of each layer in separate shards.
  build.layers_per_shard = 0;
  return {ShardKind::layers, 0,
          fmt::format("a layer of {} is above the budget of {}", decimal_bytes(least),
                      decimal_bytes(budget))};
}

}  // namespace

std::vector<int64_t> layer_groups(int64_t layers, const BuildOptions& options) {
  const int64_t most = options.layers_per_shard;
  return balanced_parts(layers, (layers + most - 1) / most);
}

std::vector<int64_t> layer_elements(const ModelConfig& model, const BuildOptions& build) {
  const MoeElements in_type = moe_elements(model, build), plain = moe_elements(model, {});
  // Elements that the build's type adds to a layer; parameter_count() does not include them.
  const int64_t added = in_type.router + in_type.norm - plain.router - plain.norm;
  ModelConfig few = model;
  std::vector<std::pair<LayerConfig, int64_t>> known;
  std::vector<int64_t> elements;
  for (const LayerConfig& layer : model.layers) {
    auto found = std::find_if(known.begin(), known.end(),
                              [&](const auto& entry) { return entry.first == layer; });
    if (found == known.end()) {
      // Computes a layer's size as the difference between the parameter counts of a two-layer and a
      // one-layer model. A one-layer model alone does not suffice, because the first layer may also
      // contain weights that exist once per model.
      few.layers = {layer};
      const int64_t with_one = parameter_count(few);
      few.layers.push_back(layer);
      found = known.insert(known.end(), {layer, parameter_count(few) - with_one});
    }
    elements.push_back(found->second + (layer.moe ? added : 0));
  }
  return elements;
}

ShardCut join_layers(const ModelConfig& model, const CutOptions& options, BuildOptions& build) {
  if (options.fit_layers) return fit_layers(model, options, build);
  const auto layers = std::ssize(model.layers);
  build.layers_per_shard = std::min(options.layers_per_shard, layers);
  return {ShardKind::layers, static_cast<int64_t>(layer_groups(layers, build).size()),
          fmt::format("{} layers per shard were requested", options.layers_per_shard)};
}

}  // namespace moec
