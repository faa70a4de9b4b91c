// Assigns the shards of a plan to the packages that an export writes.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "frontends/compile/compile_options.h"
#include "ir/model/plan.h"

namespace moec {

// Shards whose graphs are emitted together. Only Core ML packages with functions can have several.
struct ShardPackage {
  std::string stem;            // as ShardDecl::stem
  std::vector<size_t> shards;  // ascending indices into the plan
};

// Returns the packages in plan order. Every shard is in exactly one. With --widths functions, the
// shards of a MoE layer are one package if each of its expert shards has one expert. A runtime can
// then call single experts. All other shards have a package each.
std::vector<ShardPackage> shard_packages(const Plan& plan, const CompileOptions& options);

// Refuses a device that holds only some shards of a package, because it would need all bytes of the
// package. `held`: names of the device's shards. Error plan.packages.
Status check_whole_packages(const std::vector<ShardPackage>& packages, const Plan& plan,
                            const std::set<std::string>& held, const std::string& device);

// Returns ShardWidth::part of a shard in a package of several shards: "router", "shared" or
// "expert_3", and "expert_3_s1" for a slice.
std::string part_name(const ShardDecl& shard);

}  // namespace moec
