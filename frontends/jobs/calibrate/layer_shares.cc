#include "frontends/jobs/calibrate/layer_shares.h"

#include <algorithm>

#include "backends/weights/encode/hessian_sum.h"
#include "frontends/jobs/calibrate/layer_steps.h"
#include "frontends/jobs/calibrate/tapped_inputs.h"
#include "frontends/measure/window_plan.h"
#include "ir/analysis/cost.h"

namespace moec {
namespace {

// Assumed seconds per unit of work of one thread, not measured. Only their ratios matter.
constexpr double kPerMac = 1.0 / 20e9, kPerSumMac = 1.0 / 10e9, kPerWeight = 1.0 / 500e6,
                 kPerMoment = 1.0 / 100e6;

LayerTime cost_of(const Plan& plan, const TappedShard& tapped, double windows,
                  uint64_t group_bytes) {
  const int64_t experts = std::max<int64_t>(1, plan.model.moe.experts),
                top_k = std::max<int64_t>(1, plan.model.moe.routing.top_k);
  const ShardCost work = count_cost(tapped.body, top_k, experts);
  LayerTime cost{static_cast<double>(work.macs_active) * windows * kPerMac +
                     static_cast<double>(work.bytes_dense) / sizeof(float) * kPerWeight,
                 0};
  const auto chosen = static_cast<double>(top_k) / static_cast<double>(experts);
  for (const TappedInput& tap : tapped.inputs) {
    const bool of_expert = !tap.input.matrices.empty() && tap.input.matrices.front().expert >= 0;
    const double tokens =
        static_cast<double>(plan.build.tokens.front()) * windows * (of_expert ? chosen : 1.0);
    const int64_t inputs = tap.input.inputs;
    // A triangle has half of the products.
    const auto moments =
        static_cast<double>(inputs * summed_together(inputs, sum_bytes(group_bytes))) / 2;
    cost.sums += moments * (tokens * kPerSumMac + kPerMoment);
  }
  return cost;
}

// Returns the ends of at most `shares` ranges that each take at most `limit`: the first has as many
// layers as possible, then the second, and so on. Empty if they do not contain all layers.
std::vector<size_t> ends_within(std::span<const LayerTime> costs, size_t shares, double limit) {
  std::vector<size_t> ends;
  double forward = 0;
  size_t next = 0;
  while (ends.size() < shares && next < costs.size()) {
    double sums = 0;
    for (; next < costs.size(); ++next) {
      const LayerTime& cost = costs[next];
      if (forward + cost.forward + sums + cost.sums > limit) break;
      forward += cost.forward;
      sums += cost.sums;
    }
    ends.push_back(next);
  }
  return next == costs.size() ? ends : std::vector<size_t>();
}

}  // namespace

Result<std::vector<LayerTime>> layer_costs(const Plan& plan, int64_t windows,
                                           uint64_t group_bytes) {
  std::vector<LayerTime> costs;
  for (const LayerSteps& layer : layers_of(plan)) {
    LayerTime sum;
    for (size_t step = layer.begin; step < layer.begin + steps_of(layer); ++step) {
      MOEC_ASSIGN(const TappedShard tapped, tap_shard(plan, plan.schedule[step].shard));
      const LayerTime cost = cost_of(plan, tapped, static_cast<double>(windows), group_bytes);
      sum.forward += cost.forward;
      sum.sums += cost.sums;
    }
    costs.push_back(sum);
  }
  return costs;
}

SharedLayers layers_of_share(const JobShare& share, std::span<const LayerTime> costs) {
  // More shares than layers would be empty.
  const size_t shares = std::min(static_cast<size_t>(share.count), costs.size());
  double least = 0, most = 0;
  for (const LayerTime& cost : costs) most += cost.forward + cost.sums;
  // Rounding may leave the sum of all layers below that of ends_within().
  most = most * 2 + 1;
  // Each process computes the same numbers, because the steps do not depend on the share.
  for (int step = 0; step < 64; ++step) {
    const double middle = (least + most) / 2;
    (ends_within(costs, shares, middle).empty() ? least : most) = middle;
  }
  const std::vector<size_t> ends = ends_within(costs, shares, most);
  const auto index = static_cast<size_t>(share.index);
  if (index >= ends.size()) return {costs.size(), costs.size()};
  return {index == 0 ? 0 : ends[index - 1], ends[index]};
}

}  // namespace moec
