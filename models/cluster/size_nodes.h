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

namespace moec {

struct LayerBytes {
  int64_t trunk = 0;   // weights and cache
  int64_t expert = 0;  // bytes per expert; 0: a dense layer
  int64_t peak = 0;    // maximum activations over its shards
};

struct ModelBytes {
  std::vector<LayerBytes> layers;
  LayerBytes tables, head;  // LayerBytes::expert is 0
};

// Bytes per layer of a plan's units (DevicePlan::units). The layers must not be cut into expert
// groups.
ModelBytes bytes_by_layer(const std::vector<DeviceUnit>& units, const ExpertGrid& grid,
                          size_t layers);

struct NodeRequest {
  int64_t nodes = 0;  // total over all stages; 0: the minimum with enough memory
  int64_t stages = 1;
  int64_t replicas = 0;  // copies of a layer's experts on all nodes of a stage; 0: as many as fit,
                         // one per expert if memory is not limited
  std::vector<int64_t> memory;  // bytes: one for all nodes, or one per node; empty: no limit
};

struct Stage {
  int64_t first = 0, last = 0;  // first and last layer, inclusive
  int64_t trunk = 0;            // includes the tables in the first stage, the head in the last
  int64_t experts = 0;          // bytes of one expert per layer, summed over the layers
  int64_t peak = 0;
};

struct ClusterPlan {
  std::vector<Stage> stages;
  std::vector<int64_t> slots;   // experts per layer, for each group of nodes
  std::vector<int64_t> memory;  // bytes per node, ordered by stage; 0: no limit
  size_t nodes() const { return stages.size() * slots.size(); }
  size_t stage_of(size_t node) const { return node / slots.size(); }
  size_t group_of(size_t node) const { return node % slots.size(); }
  // Bytes of trunk and experts of a node.
  int64_t bytes(size_t node) const;
};

// Errors:
//   place.nodes   nodes not a multiple of stages, more stages than layers, neither a number of
//                 nodes nor memory, or memory for another number of nodes
//   place.memory  a node is too small for the trunk of its stage and top-k experts, or all nodes
//                 together are too small for all experts. The message states the required size
Result<ClusterPlan> size_nodes(const ModelBytes& model, const ExpertGrid& grid,
                               const NodeRequest& request);

}  // namespace moec
