// How many experts of each layer the nodes of a cluster have room for, and how many nodes a model
// needs. Nodes form a grid: the layers are cut into stages, each of which has the same groups of
// nodes. A node holds the trunk of its stage (attention, routers, shared experts, dense layers,
// norms, and the caches) and some experts of each of its layers.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/experts/expert_sets.h"
#include "models/cluster/assign_devices.h"

namespace moec {

struct LayerBytes {
  int64_t trunk = 0;   // weights and cache
  int64_t expert = 0;  // of one expert; 0: a dense layer
  int64_t peak = 0;    // the most activations of its shards
};

struct ModelBytes {
  std::vector<LayerBytes> layers;
  LayerBytes tables, head;  // without experts
};

// By layer, of the units of a plan whose layers are not cut into groups of experts
// (DevicePlan::units).
ModelBytes bytes_by_layer(const std::vector<DeviceUnit>& units, const ExpertGrid& grid,
                          size_t layers);

struct NodeRequest {
  int64_t nodes = 0;  // in all stages; 0: as few as have room
  int64_t stages = 1;
  int64_t replicas = 0;  // copies of a layer's experts on all nodes of a stage; 0: as many as fit,
                         // one of each where memory is not limited
  std::vector<int64_t> memory;  // bytes: of every node, or of each; empty: not limited
};

struct Stage {
  int64_t first = 0, last = 0;  // layers, both included
  int64_t trunk = 0;            // with the tables in the first stage, and the head in the last
  int64_t experts = 0;          // bytes of one expert of each of its layers
  int64_t peak = 0;
};

struct ClusterPlan {
  std::vector<Stage> stages;
  std::vector<int64_t> slots;   // by group of nodes: experts of each layer
  std::vector<int64_t> memory;  // by node, stage by stage; 0: not limited
  size_t nodes() const { return stages.size() * slots.size(); }
  size_t stage_of(size_t node) const { return node / slots.size(); }
  size_t group_of(size_t node) const { return node % slots.size(); }
  // Trunk and experts of a node.
  int64_t bytes(size_t node) const;
};

// Errors:
//   place.nodes   nodes that are no multiple of the stages, more stages than layers, no number of
//                 nodes without memory, or memory of another number of nodes
//   place.memory  a node has no room for the trunk of its stage and as many experts as a token
//                 chooses; or all nodes together none for every expert. It says what would do
Result<ClusterPlan> size_nodes(const ModelBytes& model, const ExpertGrid& grid,
                               const NodeRequest& request);

}  // namespace moec
