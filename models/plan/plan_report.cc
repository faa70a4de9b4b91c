#include "models/plan/plan_report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "models/plan/mlp_elements.h"
#include "models/shards/needed_tensors.h"
#include "models/shards/width_slices.h"

namespace moec {
namespace {

struct MeanCost {
  double bytes = 0, macs = 0;
};

class Reporter {
 public:
  Reporter(const Plan& plan, const std::vector<ShardSize>& sizes, const CutOptions& options)
      : plan_(plan),
        sizes_(sizes),
        options_(options),
        elements_(moe_elements(plan.model, plan.build)) {}

  PlanReport run() {
    for (size_t i = 0; i < plan_.shards.size(); ++i) {
      add_to_kind(i);
      add_to_memory(i);
      add_to_token(i);
    }
    std::sort(report_.kinds.begin(), report_.kinds.end(),
              [](const KindReport& a, const KindReport& b) { return a.kind < b.kind; });
    report_.host_routed = {std::llround(mean_.bytes), std::llround(mean_.macs)};
    describe_model();
    return std::move(report_);
  }

 private:
  // A cache that is an input is already counted in the activations.
  int64_t resident(size_t i) const {
    return sizes_[i].weight_bytes + sizes_[i].peak_activation_bytes +
           (updates_cache(plan_.build.cache) ? sizes_[i].cache_bytes : 0);
  }

  KindReport& kind_of(const ShardDecl& shard) {
    for (KindReport& kind : report_.kinds)
      if (kind.kind == shard.kind) return kind;
    report_.kinds.push_back(
        {.kind = shard.kind, .budget_bytes = budget_of(options_.budgets, shard.kind).bytes});
    return report_.kinds.back();
  }

  void add_to_kind(size_t i) {
    KindReport& kind = kind_of(plan_.shards[i]);
    const int64_t weights = sizes_[i].weight_bytes;
    ++kind.shards;
    kind.over += kind.budget_bytes > 0 && weights > kind.budget_bytes;
    // Compares before `largest_bytes` is updated. Ties keep the first shard.
    if (weights > kind.largest_bytes) kind.largest = plan_.shards[i].name;
    kind.largest_bytes = std::max(kind.largest_bytes, weights);
    kind.total_bytes += weights;
    kind.peak_activation_bytes =
        std::max(kind.peak_activation_bytes, sizes_[i].peak_activation_bytes);
    kind.resident_bytes = std::max(kind.resident_bytes, resident(i));
  }

  void add_to_memory(size_t i) {
    report_.expert_total_bytes += sizes_[i].expert_bytes;
    report_.trunk_bytes += sizes_[i].weight_bytes - sizes_[i].expert_bytes;
    if (sizes_[i].expert_bytes > 0) add_to_layers(plan_.shards[i], sizes_[i].expert_bytes);
    report_.cache_bytes += sizes_[i].cache_bytes;
    if (is_head(plan_.shards[i].kind)) report_.head_bytes += sizes_[i].weight_bytes;
  }

  void add_to_token(size_t i) {
    const ShardSize& size = sizes_[i];
    const MoeConfig& moe = plan_.model.moe;
    report_.dense.bytes += size.weight_bytes;
    report_.dense.macs += size.macs;
    mean_.bytes += chance_to_run(plan_, i) * static_cast<double>(size.weight_bytes);
    mean_.macs += chance_to_run(plan_, i) * static_cast<double>(size.macs);
    const int64_t experts = size.expert_bytes;
    const int64_t chosen = experts == 0 ? 0 : experts * moe.routing.top_k / moe.experts;
    // `sparse` counts only the chosen experts, whereas `mean_` counts whole shards.
    report_.sparse.bytes += size.weight_bytes - experts + chosen;
    report_.sparse.macs += size.macs_active;
  }

  // Adds up slices and groups of a layer's experts; layers in one shard get equal parts.
  void add_to_layers(const ShardDecl& shard, int64_t bytes) {
    const std::vector<int64_t> layers = moe_layers_of(plan_.model, shard);
    for (const int64_t layer : layers) layer_bytes_[layer] += bytes / std::ssize(layers);
  }

  int64_t bytes_of_an_expert() const {
    // Layers can have different weight forms, so the largest expert determines the result.
    int64_t largest = 0;
    for (const auto& [layer, bytes] : layer_bytes_)
      largest = std::max(largest, (bytes + plan_.model.moe.experts - 1) / plan_.model.moe.experts);
    return largest;
  }

  void describe_model() {
    report_.parameters = parameter_count(plan_.model);
    report_.dtype = plan_.build.dtype;
    report_.all_float = plan_.build.weights.all_float();
    if (elements_.expert.whole() > 0) report_.groups = most_groups(plan_.model, plan_.build);
    report_.expert_bytes = plan_.build.weights.all_float()
                               ? elements_.expert.whole() * dtype_bytes(plan_.build.dtype)
                               : bytes_of_an_expert();
    const int64_t element = dtype_bytes(plan_.build.dtype);
    report_.embedding_bytes = plan_.model.vocab * plan_.model.hidden * element;
    int64_t columns = plan_.model.attention.temperature ? 1 : 0;
    // Each rotation has dims / 2 cosines and dims / 2 sines per position.
    for (const RopeConfig& rope : plan_.model.rotations()) columns += rope.dims;
    report_.rope_bytes = plan_.build.context * element * columns;
  }

  const Plan& plan_;
  const std::vector<ShardSize>& sizes_;
  const CutOptions& options_;
  MoeElements elements_;
  std::map<int64_t, int64_t> layer_bytes_;  // bytes of experts per layer
  MeanCost mean_;
  PlanReport report_;
};

}  // namespace

PlanReport report_plan(const Plan& plan, const std::vector<ShardSize>& sizes,
                       const CutOptions& options) {
  return Reporter(plan, sizes, options).run();
}

double chance_to_run(const Plan& plan, size_t index) {
  const ShardDecl& shard = plan.shards[index];
  const MoeConfig& moe = plan.model.moe;
  if (!is_expert_group(shard.kind)) return 1;
  // A group without skip_from adds more than experts, so it always runs.
  if (plan.schedule[index].skip_from.empty()) return 1;
  return chance_of_any(shard.experts, moe.routing.top_k, moe.experts);
}

double chance_of_any(int64_t some, int64_t chosen, int64_t all) {
  // 1 − Π (all − some − i) / (all − i): the chance that not all `chosen` distinct experts lie
  // outside of `some`.
  double none = 1;
  for (int64_t i = 0; i < chosen; ++i)
    none *=
        static_cast<double>(std::max<int64_t>(all - some - i, 0)) / static_cast<double>(all - i);
  return 1 - none;
}

}  // namespace moec
