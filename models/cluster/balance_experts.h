// Places copies of a layer's experts on devices to balance the load: the hierarchical and global
// algorithms of EPLB (github.com/deepseek-ai/EPLB).
//
//   1. expert groups → nodes: the heaviest group first, each to the lightest node with room
//   2. in each node, each extra copy → the expert with the largest load per copy
//   3. in each node, copies → devices, as in 1
//
// The global policy is the hierarchical one with one group and one node. It applies if the number
// of groups is not a multiple of the number of nodes, because groups then cannot stay on one node.
// Ties go to the lower index.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

struct BalanceOptions {
  int64_t replicas = 0;  // copies of all experts, including the originals
  int64_t groups = 1;    // router groups of consecutive experts, equal in size
  int64_t nodes = 1;     // sets of devices with a fast interconnect
  int64_t devices = 1;   // total over nodes
  bool operator==(const BalanceOptions&) const = default;
};

// Slots are numbered in the order of devices.
struct ExpertBalance {
  std::vector<int64_t> expert_of;              // [replicas]: the expert in each slot
  std::vector<std::vector<int64_t>> slots_of;  // [experts]: its slots, in the order of its copies
  bool operator==(const ExpertBalance&) const = default;
  size_t device_of(size_t slot, int64_t devices) const {
    return slot / (expert_of.size() / static_cast<size_t>(devices));
  }
};

inline constexpr int64_t kMaxReplicas = int64_t{1} << 16;

// Chooses each expert's number of copies and their devices to balance the load. `loads` has one
// element per expert: its share of the layer's work, in any unit. Errors:
//   balance.load     a load is negative or not finite
//   balance.counts   experts are not divisible by groups, devices by nodes, or replicas by devices;
//                    fewer replicas than experts, or more than one copy per expert and device
Result<ExpertBalance> balance_experts(std::span<const double> loads, const BalanceOptions& options);

// Returns the load per device, [devices]. The copies of an expert share its load equally.
std::vector<double> device_loads(std::span<const double> loads, const ExpertBalance& balance,
                                 int64_t devices);

}  // namespace moec
