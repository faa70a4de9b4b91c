// Computes the experts per layer that fit on cluster nodes, and the number of nodes that a model
// needs. Nodes form a grid: layers are divided into stages, and each stage has the same groups of
// nodes. A node has the trunk of its stage (attention, routers, shared experts, dense layers,
// norms, caches) and some experts of each layer.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/experts/expert_sets.h"
#include "models/cluster/assign_devices.h"
#include "models/cluster/cluster_nodes.h"

namespace moec {

struct LayerCost {
  int64_t trunk = 0;   // weights and cache
  int64_t expert = 0;  // bytes per expert; 0: a dense layer
  int64_t peak = 0;    // maximum activations over its shards
  // Multiply-adds per token: trunk, and one expert.
  int64_t trunk_macs = 0, expert_macs = 0;
};

struct ModelCost {
  std::vector<LayerCost> layers;
  LayerCost tables, head;  // LayerCost::expert is 0
};

// Sums a plan's units (DevicePlan::units) per layer. The layers must not be cut into expert groups.
ModelCost cost_by_layer(const std::vector<DeviceUnit>& units, const ExpertGrid& grid,
                        size_t layers);

struct NodeRequest {
  int64_t nodes = 0;  // total over all stages; 0: the minimum with enough memory
  int64_t stages = 1;
  int64_t replicas = 0;  // copies of a layer's experts on all nodes of a stage; 0: as many as fit,
                         // one per expert if memory is not limited
  // One element for all nodes, or one per node, ordered by stage; empty: no limits.
  std::vector<ClusterNode> pool;
  // The pool has any number of elements in any order. The nodes with the most memory are used.
  bool choose = false;
};

struct Stage {
  int64_t first = 0, last = 0;  // first and last layer, inclusive
  int64_t trunk = 0;            // includes the tables in the first stage, the head in the last
  int64_t tables = 0;           // part of `trunk` of which a token reads only single rows
  int64_t experts = 0;          // bytes of one expert per layer, summed over the layers
  int64_t peak = 0;
  // Multiply-adds per token: trunk, and one expert per layer, summed over the layers.
  int64_t trunk_macs = 0, expert_macs = 0;
};

struct ClusterPlan {
  std::vector<Stage> stages;
  std::vector<int64_t> slots;         // experts per layer, for each group of nodes
  std::vector<ClusterNode> machines;  // one per node, ordered by stage
  size_t nodes() const { return stages.size() * slots.size(); }
  size_t stage_of(size_t node) const { return node / slots.size(); }
  size_t group_of(size_t node) const { return node % slots.size(); }
  size_t node_at(size_t stage, size_t group) const { return stage * slots.size() + group; }
  // Bytes of trunk and experts of a node.
  int64_t bytes(size_t node) const;
};

// Fills the memory of the nodes. If the request has replicas or no memory, divides the copies among
// the groups of nodes in proportion to their bandwidth. Errors:
//   place.nodes   nodes not a multiple of stages, more stages than layers, neither a number of
//                 nodes nor memory, memory for another number of nodes, more nodes than the pool
//                 has, or a minimum of experts above those of the model
//   place.memory  a node is too small for the trunk of its stage and its minimum of experts (top-k
//                 if it has none), or all nodes together are too small for all experts. The message
//                 states the required size
Result<ClusterPlan> size_nodes(const ModelCost& model, const ExpertGrid& grid,
                               const NodeRequest& request);

}  // namespace moec
