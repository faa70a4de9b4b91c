// Where the copies of one layer's experts go, so that devices have equal work: the algorithm of
// EPLB (github.com/deepseek-ai/EPLB), hierarchical and global.
//
//   1. expert groups → nodes: the heaviest group first, each to the lightest node that has room
//   2. in each node, extra copies one by one to the expert with the largest load a copy
//   3. in each node, copies → devices, as in 1
//
// The global policy is the same with one group and one node; it is taken where the nodes do not
// divide the groups, which then cannot stay together. Ties go to the lower index.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

struct BalanceOptions {
  int64_t replicas = 0;  // all copies of experts; the one that each expert has anyway counts
  int64_t groups = 1;    // of consecutive experts, equal in size, that routing chooses together
  int64_t nodes = 1;     // sets of devices with a fast network between them
  int64_t devices = 1;   // in all nodes
  bool operator==(const BalanceOptions&) const = default;
};

// Slots are numbered device by device.
struct ExpertBalance {
  std::vector<int64_t> expert_of;              // [replicas]: the expert in each slot
  std::vector<std::vector<int64_t>> slots_of;  // [experts]: its slots, in the order of its copies
  bool operator==(const ExpertBalance&) const = default;
  size_t device_of(size_t slot, int64_t devices) const {
    return slot / (expert_of.size() / static_cast<size_t>(devices));
  }
};

inline constexpr int64_t kMostReplicas = int64_t{1} << 16;

// Chooses how many copies each expert gets and which device holds each of them, so that the devices
// do about the same work. `loads` has one number for each expert, in any unit: its share of a
// layer's work.
// Errors:
//   balance.load     a load is negative or not finite
//   balance.counts   the experts do not divide into the groups, the devices into the nodes, or the
//                    replicas into the devices; fewer replicas than experts, or more than one of
//                    each expert on each device
Result<ExpertBalance> balance_experts(std::span<const double> loads, const BalanceOptions& options);

// The work of each device, [devices], when the copies of an expert share its load equally.
std::vector<double> device_loads(std::span<const double> loads, const ExpertBalance& balance,
                                 int64_t devices);

}  // namespace moec
