#include "models/cluster/size_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "ir/base/at.h"
#include "ir/base/byte_text.h"

namespace moec {
namespace {

void add(const LayerCost& layer, Stage& stage) {
  stage.trunk += layer.trunk;
  stage.experts += layer.expert;
  stage.peak = std::max(stage.peak, layer.peak);
  stage.trunk_macs += layer.trunk_macs;
  stage.expert_macs += layer.expert_macs;
}

// Bytes of a layer: trunk plus every expert once.
int64_t weight_of(const LayerCost& layer, const ExpertGrid& grid) {
  return layer.trunk + layer.expert * grid.experts;
}

// Runs of layers with about equal bytes, at least one layer each.
std::vector<Stage> cut_stages(const ModelCost& model, const ExpertGrid& grid, int64_t count) {
  int64_t left = 0;
  for (const LayerCost& layer : model.layers) left += weight_of(layer, grid);
  std::vector<Stage> stages;
  const auto layers = std::ssize(model.layers);
  int64_t next = 0;
  for (int64_t s = 0; s < count; ++s) {
    // Divides the remaining bytes again for each stage, so that deviations do not accumulate.
    const int64_t share = left / (count - s);
    Stage stage{.first = next};
    int64_t weight = 0;
    do {
      const LayerCost& layer = at(model.layers, next++);
      add(layer, stage);
      weight += weight_of(layer, grid);
      // Every later stage needs a layer. Except in the last stage, the next layer joins only if at
      // least half of it fits into the share.
    } while (layers - next > count - s - 1 &&
             (s + 1 == count || weight + weight_of(at(model.layers, next), grid) / 2 <= share));
    stage.last = next - 1;
    left -= weight;
    stages.push_back(stage);
  }
  add(model.tables, stages.front());
  stages.front().tables = model.tables.trunk;
  add(model.head, stages.back());
  return stages;
}

// Experts per layer that a group of nodes may have.
struct SlotRange {
  int64_t least = 0, most = 0;
  double weight = 1;  // share of the copies relative to other groups
};

// The slots of each group for `factor` copies per weight: multiples of `step` within the ranges.
std::vector<int64_t> slots_for(double factor, const std::vector<SlotRange>& ranges, int64_t step) {
  std::vector<int64_t> slots;
  for (const SlotRange& range : ranges) {
    // Bounded before the conversion to an integer, which could overflow.
    const double wanted = std::min(factor * range.weight, static_cast<double>(range.most));
    const auto steps = static_cast<int64_t>(std::ceil(wanted / static_cast<double>(step)));
    slots.push_back(std::clamp(steps * step, range.least, range.most));
  }
  return slots;
}

// Divides `copies` among the groups in proportion to their weights, rounded up to multiples of
// `step`. The ranges must have room for all copies.
std::vector<int64_t> share_out(int64_t copies, const std::vector<SlotRange>& ranges, int64_t step) {
  double low = 0, high = 0;
  for (const SlotRange& range : ranges)
    high = std::max(high, static_cast<double>(range.most) / range.weight);
  // Halves the interval below the precision that distinguishes two numbers of slots. The upper end
  // always has room for all copies.
  constexpr int kSteps = 80;
  for (int i = 0; i < kSteps; ++i) {
    const double middle = (low + high) / 2;
    const std::vector<int64_t> slots = slots_for(middle, ranges, step);
    (std::accumulate(slots.begin(), slots.end(), int64_t{0}) >= copies ? high : low) = middle;
  }
  return slots_for(high, ranges, step);
}

class NodeSizer {
 public:
  NodeSizer(const ModelCost& model, const ExpertGrid& grid, const NodeRequest& request)
      : grid_(grid), request_(request), stages_(cut_stages(model, grid, request.stages)) {
    by_need_.resize(stages_.size());
    std::iota(by_need_.begin(), by_need_.end(), size_t{0});
    // A stage with few experts needs less memory than one with the same trunk and many experts.
    const auto need = [&](size_t s) {
      return stages_[s].trunk + stages_[s].peak + stages_[s].experts * grid.top_k;
    };
    std::stable_sort(by_need_.begin(), by_need_.end(),
                     [&](size_t a, size_t b) { return need(a) > need(b); });
    by_memory_ = request.pool;
    std::stable_sort(by_memory_.begin(), by_memory_.end(),
                     [](const ClusterNode& a, const ClusterNode& b) {
                       return std::pair(a.memory, a.bandwidth) > std::pair(b.memory, b.bandwidth);
                     });
  }

  Result<ClusterPlan> run() {
    // Keeps a requested number of nodes. Otherwise, finds the smallest number that fits.
    if (request_.nodes > 0) return with_groups(request_.nodes / request_.stages);
    const int64_t most = request_.choose
                             ? std::min(grid_.experts, std::ssize(request_.pool) / request_.stages)
                             : grid_.experts;
    Result<ClusterPlan> plan = with_groups(1);
    for (int64_t groups = 2; !plan && groups <= most; ++groups) plan = with_groups(groups);
    return plan;
  }

 private:
  // The nodes for this number of groups, ordered by stage.
  std::vector<ClusterNode> machines(int64_t groups) const {
    const auto stages = std::ssize(stages_);
    const auto count = static_cast<size_t>(groups * stages);
    if (request_.pool.empty()) return std::vector<ClusterNode>(count);
    if (!request_.choose)
      return request_.pool.size() == 1 ? std::vector<ClusterNode>(count, request_.pool.front())
                                       : request_.pool;
    // A group has the slots of its smallest node, so nodes of similar size form a group.
    std::vector<ClusterNode> chosen(count);
    for (int64_t group = 0; group < groups; ++group)
      for (int64_t rank = 0; rank < stages; ++rank)
        at(chosen, static_cast<int64_t>(at(by_need_, rank)) * groups + group) =
            at(by_memory_, group * stages + rank);
    return chosen;
  }

  // Number of experts per layer that fit on a node.
  int64_t room(const Stage& stage, const ClusterNode& node) const {
    // A stage without MoE layers has room for any number of experts.
    if (node.memory == 0) return grid_.experts;
    const int64_t left = node.memory - stage.trunk - stage.peak;
    if (left < 0) return 0;
    return stage.experts == 0 ? grid_.experts : std::min(left / stage.experts, grid_.experts);
  }

  // Rounds to the same number of experts from each router group.
  int64_t rounded_down(int64_t slots) const { return slots / grid_.groups * grid_.groups; }
  int64_t rounded_up(int64_t slots) const { return rounded_down(slots + grid_.groups - 1); }

  // The range of one group of nodes over all stages.
  Result<SlotRange> range_of(const ClusterPlan& plan, size_t group) const {
    SlotRange range{0, grid_.experts, std::numeric_limits<double>::infinity()};
    for (size_t s = 0; s < stages_.size(); ++s) {
      const ClusterNode& node = plan.machines[plan.node_at(s, group)];
      range.least = std::max(range.least, rounded_up(std::max(grid_.top_k, node.min_experts)));
      // The slowest node determines the speed of a group.
      range.weight = std::min(range.weight, node.bandwidth);
    }
    if (range.weight == 0) range.weight = 1;
    for (size_t s = 0; s < stages_.size(); ++s) {
      const size_t node = plan.node_at(s, group);
      const int64_t own = rounded_down(room(stages_[s], plan.machines[node]));
      if (own < range.least) return too_small(plan, node, range.least);
      range.most = std::min(range.most, own);
    }
    return range;
  }

  Result<ClusterPlan> with_groups(int64_t groups) const {
    ClusterPlan plan{stages_, std::vector<int64_t>(static_cast<size_t>(groups)), machines(groups)};
    std::vector<SlotRange> ranges;
    int64_t all = 0;
    for (size_t group = 0; group < plan.slots.size(); ++group) {
      MOEC_ASSIGN(const SlotRange range, range_of(plan, group));
      all += range.most;
      ranges.push_back(range);
    }
    const int64_t copies = std::max(grid_.experts, request_.replicas);
    if (all < copies) return no_room(all, groups);
    const bool fills = !request_.pool.empty() && request_.replicas == 0;
    plan.slots = share_out(fills ? all : copies, ranges, grid_.groups);
    return plan;
  }

  tl::unexpected<Diagnostics> too_small(const ClusterPlan& plan, size_t index,
                                        int64_t experts) const {
    const Stage& stage = plan.stages[plan.stage_of(index)];
    const ClusterNode& node = plan.machines[index];
    const int64_t base = stage.trunk + stage.peak;
    return fail(
        "place.memory",
        fmt::format("node {} has {}; layers {} to {} need {} without experts, and {} with "
                    "{} experts per layer",
                    node.name.empty() ? fmt::format("{}", index) : node.name,
                    decimal_bytes(node.memory), stage.first, stage.last, decimal_bytes(base),
                    decimal_bytes(base + experts * stage.experts), experts),
        "use more --stages, nodes with more memory, or smaller --weights");
  }

  tl::unexpected<Diagnostics> no_room(int64_t slots, int64_t groups) const {
    return fail("place.memory",
                fmt::format("{} nodes have room for {} experts per layer, expected {}",
                            std::ssize(stages_) * groups, slots,
                            std::max(grid_.experts, request_.replicas)),
                "use more nodes, nodes with more memory, or smaller --weights; omit --nodes to "
                "plan as many as the model needs");
  }

  const ExpertGrid& grid_;
  const NodeRequest& request_;
  std::vector<Stage> stages_;
  std::vector<size_t> by_need_;         // stages, the largest first
  std::vector<ClusterNode> by_memory_;  // the pool, the largest first
};

Status check_pool(const NodeRequest& request) {
  const auto known = std::ssize(request.pool);
  if (std::max(request.nodes, request.stages) <= known) return {};
  return fail("place.nodes",
              fmt::format("{} nodes in {} stages are not possible with the {} of the cluster",
                          std::max(request.nodes, request.stages), request.stages, known),
              "add nodes to the cluster, or reduce --nodes or --stages");
}

Status check_request(const ModelCost& model, const ExpertGrid& grid, const NodeRequest& request) {
  const auto error = [](std::string cause, std::string next) {
    return fail("place.nodes", std::move(cause), std::move(next));
  };
  if (request.stages > std::ssize(model.layers))
    return error(fmt::format("{} stages are not possible for a model with {} layers",
                             request.stages, model.layers.size()),
                 "give each stage at least one layer");
  if (request.nodes % request.stages != 0)
    return error(
        fmt::format("{} nodes are not divisible into {} stages", request.nodes, request.stages),
        "give each stage the same number of nodes");
  const auto known = std::ssize(request.pool);
  for (const ClusterNode& node : request.pool)
    if (node.min_experts > grid.experts)
      return error(fmt::format("node {} requires {} experts per layer, the model has {}", node.name,
                               node.min_experts, grid.experts),
                   "reduce its min_experts");
  if (request.choose) return check_pool(request);
  if (request.nodes == 0 && known != 1)
    return error("the number of nodes is missing",
                 "pass --nodes, or a single --node-memory to plan the minimum number");
  if (known > 1 && known != request.nodes)
    return error(fmt::format("--node-memory has {} amounts for {} nodes", known, request.nodes),
                 "pass one amount for all nodes, or one per node, ordered by stage");
  return {};
}

}  // namespace

ModelCost cost_by_layer(const std::vector<DeviceUnit>& units, const ExpertGrid& grid,
                        size_t layers) {
  ModelCost model{std::vector<LayerCost>(layers), {}, {}};
  for (const DeviceUnit& unit : units) {
    // The tables and the head belong to no layer.
    LayerCost& own = unit.layer >= 0         ? at(model.layers, unit.layer)
                     : unit.name == "tables" ? model.tables
                                             : model.head;
    own.trunk += unit.bytes - unit.expert_bytes;
    own.peak = std::max(own.peak, unit.peak_bytes);
    if (grid.experts > 0) own.expert += unit.expert_bytes / grid.experts;
    // The difference is the work of the experts that are not chosen. If a token chooses all
    // experts, their work counts as trunk.
    if (grid.experts > grid.top_k) {
      const int64_t expert = (unit.macs - unit.macs_active) / (grid.experts - grid.top_k);
      own.expert_macs += expert;
      own.trunk_macs += unit.macs_active - grid.top_k * expert;
    } else {
      own.trunk_macs += unit.macs;
    }
  }
  return model;
}

int64_t ClusterPlan::bytes(size_t node) const {
  const Stage& stage = stages[stage_of(node)];
  return stage.trunk + slots[group_of(node)] * stage.experts;
}

Result<ClusterPlan> size_nodes(const ModelCost& model, const ExpertGrid& grid,
                               const NodeRequest& request) {
  MOEC_TRY(check_request(model, grid, request));
  return NodeSizer(model, grid, request).run();
}

}  // namespace moec
