// Selects the packages that an export writes, and groups those of several targets by the part of
// the model that they contain.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "frontends/compile/shard_packages.h"
#include "ir/base/share.h"
#include "ir/model/plan.h"

namespace moec {

// The shards of all targets for one part of the model: the attention of a layer, its feed-forward
// part, several whole layers, or the head. Targets may cut that part differently. The shards are
// exported at the same time, because they read the same tensors.
struct ExportUnit {
  std::vector<std::vector<ShardPackage>> packages;  // by target, in the order of its plan
};

// The packages of a target's plan (shard_packages()).
struct PackagedPlan {
  const Plan* plan = nullptr;
  std::vector<ShardPackage> packages;
};

// Returns the packages of one share: consecutive ones with about 1/N of the bytes. Every package is
// in exactly one of the N shares. `shard_bytes` are the weight bytes by index in the plan.
// `table_bytes` count for share 0, which writes the tables.
std::vector<ShardPackage> packages_of_share(const JobShare& share,
                                            std::vector<ShardPackage> packages,
                                            std::span<const uint64_t> shard_bytes,
                                            uint64_t table_bytes);

// Returns the units in model order. Every package is in exactly one unit. With a single plan, each
// package is a unit.
std::vector<ExportUnit> export_units(std::vector<PackagedPlan> targets);

}  // namespace moec
