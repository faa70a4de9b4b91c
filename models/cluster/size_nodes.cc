#include "models/cluster/size_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/base/at.h"
#include "ir/base/byte_text.h"

namespace moec {
namespace {

void add(const LayerBytes& layer, Stage& stage) {
  stage.trunk += layer.trunk;
  stage.experts += layer.expert;
  stage.peak = std::max(stage.peak, layer.peak);
}

// Bytes of a layer: trunk plus every expert once.
int64_t weight_of(const LayerBytes& layer, const ExpertGrid& grid) {
  return layer.trunk + layer.expert * grid.experts;
}

// Runs of layers with about equal bytes, at least one layer each.
std::vector<Stage> cut_stages(const ModelBytes& model, const ExpertGrid& grid, int64_t count) {
  int64_t left = 0;
  for (const LayerBytes& layer : model.layers) left += weight_of(layer, grid);
  std::vector<Stage> stages;
  const auto layers = std::ssize(model.layers);
  int64_t next = 0;
  for (int64_t s = 0; s < count; ++s) {
    // Divides the remaining bytes again for each stage, so that deviations do not accumulate.
    const int64_t share = left / (count - s);
    Stage stage{.first = next};
    int64_t weight = 0;
    do {
      const LayerBytes& layer = at(model.layers, next++);
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
  add(model.head, stages.back());
  return stages;
}

class NodeSizer {
 public:
  NodeSizer(const ModelBytes& model, const ExpertGrid& grid, const NodeRequest& request)
      : grid_(grid), request_(request), stages_(cut_stages(model, grid, request.stages)) {}

  Result<ClusterPlan> run() {
    // Keeps a requested number of nodes. Otherwise, finds the smallest number that fits.
    if (request_.nodes > 0) return with_groups(request_.nodes / request_.stages);
    Result<ClusterPlan> plan = with_groups(1);
    for (int64_t groups = 2; !plan && groups <= grid_.experts; ++groups) plan = with_groups(groups);
    return plan;
  }

 private:
  int64_t memory_of(int64_t node) const {
    if (request_.memory.empty()) return 0;
    return request_.memory.size() == 1 ? request_.memory.front() : at(request_.memory, node);
  }

  // Number of experts per layer that fit on a node.
  int64_t room(int64_t node, int64_t groups) const {
    const Stage& stage = at(stages_, node / groups);
    const int64_t left = memory_of(node) - stage.trunk - stage.peak;
    if (left < 0) return 0;
    // A stage without MoE layers has room for any number of experts.
    return stage.experts == 0 ? grid_.experts : std::min(left / stage.experts, grid_.experts);
  }

  // Rounds down to the same number of experts from each router group.
  int64_t rounded(int64_t slots) const { return slots / grid_.groups * grid_.groups; }

  // Experts per layer of one group of nodes, over all stages.
  Result<int64_t> slots_of(int64_t group, int64_t groups) const {
    const int64_t copies = std::max(request_.replicas, grid_.experts);
    // Adding `grid_.groups` - 1 makes rounded() round up.
    const int64_t asked =
        std::min(grid_.experts, rounded((copies + groups - 1) / groups + grid_.groups - 1));
    if (request_.memory.empty()) return asked;
    int64_t slots = grid_.experts;
    for (int64_t s = 0; s < std::ssize(stages_); ++s) {
      const int64_t own = rounded(room(s * groups + group, groups));
      if (own < grid_.top_k) return too_small(s, s * groups + group);
      slots = std::min(slots, own);
    }
    return request_.replicas > 0 ? std::min(slots, asked) : slots;
  }

  Result<ClusterPlan> with_groups(int64_t groups) const {
    ClusterPlan plan{stages_, {}, {}};
    for (int64_t group = 0; group < groups; ++group) {
      MOEC_ASSIGN(const int64_t slots, slots_of(group, groups));
      plan.slots.push_back(slots);
    }
    for (int64_t node = 0; node < std::ssize(stages_) * groups; ++node)
      plan.memory.push_back(memory_of(node));
    const int64_t all = std::accumulate(plan.slots.begin(), plan.slots.end(), int64_t{0});
    if (all < std::max(grid_.experts, request_.replicas)) return no_room(all, groups);
    return plan;
  }

  tl::unexpected<Diagnostics> too_small(int64_t s, int64_t node) const {
    const Stage& stage = at(stages_, s);
    const int64_t least =
        stage.trunk + stage.peak +
        (grid_.top_k + grid_.groups - 1) / grid_.groups * grid_.groups * stage.experts;
    return fail("place.memory",
                fmt::format("node {} has {}; layers {} to {} need {} without experts, and {} with "
                            "top-k experts per layer",
                            node, decimal_bytes(memory_of(node)), stage.first, stage.last,
                            decimal_bytes(stage.trunk + stage.peak), decimal_bytes(least)),
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
};

Status check_request(const ModelBytes& model, const NodeRequest& request) {
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
  if (request.nodes == 0 && request.memory.size() != 1)
    return error("the number of nodes is missing",
                 "pass --nodes, or a single --node-memory to plan the minimum number");
  if (request.memory.size() > 1 && std::ssize(request.memory) != request.nodes)
    return error(fmt::format("--node-memory has {} amounts for {} nodes", request.memory.size(),
                             request.nodes),
                 "pass one amount for all nodes, or one per node, ordered by stage");
  return {};
}

}  // namespace

ModelBytes bytes_by_layer(const std::vector<DeviceUnit>& units, const ExpertGrid& grid,
                          size_t layers) {
  ModelBytes model{std::vector<LayerBytes>(layers), {}, {}};
  for (const DeviceUnit& unit : units) {
    // The tables and the head belong to no layer.
    LayerBytes& own = unit.layer >= 0         ? at(model.layers, unit.layer)
                      : unit.name == "tables" ? model.tables
                                              : model.head;
    own.trunk += unit.bytes - unit.expert_bytes;
    own.peak = std::max(own.peak, unit.peak_bytes);
    if (grid.experts > 0) own.expert += unit.expert_bytes / grid.experts;
  }
  return model;
}

int64_t ClusterPlan::bytes(size_t node) const {
  const Stage& stage = stages[stage_of(node)];
  return stage.trunk + slots[group_of(node)] * stage.experts;
}

Result<ClusterPlan> size_nodes(const ModelBytes& model, const ExpertGrid& grid,
                               const NodeRequest& request) {
  MOEC_TRY(check_request(model, request));
  return NodeSizer(model, grid, request).run();
}

}  // namespace moec
