#include "frontends/compile/shard_packages.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "models/shards/layer_ports.h"

namespace moec {
namespace {

bool is_part_of_layer(ShardKind kind) {
  return is_router(kind) || is_shared_expert(kind) || is_expert_group(kind);
}

// Returns the largest number of experts of a shard, for each MoE layer with separate routers.
std::map<int64_t, int64_t> largest_groups(const Plan& plan) {
  std::map<int64_t, int64_t> largest;
  for (const ShardDecl& shard : plan.shards)
    if (is_expert_group(shard.kind))
      largest[shard.layer] = std::max(largest[shard.layer], shard.experts);
  return largest;
}

}  // namespace

std::vector<ShardPackage> shard_packages(const Plan& plan, const CompileOptions& options) {
  const bool functions = options.passes.target.format == ShardFormat::coreml &&
                         options.coreml.packaging == WidthPackaging::functions;
  const std::map<int64_t, int64_t> groups = largest_groups(plan);
  std::vector<ShardPackage> packages;
  std::map<int64_t, size_t> of_layers;  // layer → index of its package
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const ShardDecl& shard = plan.shards[i];
    const auto group = groups.find(shard.layer);
    const bool joins =
        functions && is_part_of_layer(shard.kind) && group != groups.end() && group->second == 1;
    if (!joins) {
      packages.push_back({shard.stem, {i}});
      continue;
    }
    const auto [found, is_new] = of_layers.emplace(shard.layer, packages.size());
    // The folder of experts, not that of the router, which comes first.
    if (is_new)
      packages.push_back(
          {fmt::format("{}/{}", contents(ShardKind::experts).folder, layer_label(shard.layer)),
           {}});
    packages[found->second].shards.push_back(i);
  }
  return packages;
}

Status check_whole_packages(const std::vector<ShardPackage>& packages, const Plan& plan,
                            const std::set<std::string>& held, const std::string& device) {
  for (const ShardPackage& package : packages) {
    const auto count =
        std::count_if(package.shards.begin(), package.shards.end(),
                      [&](size_t index) { return held.contains(plan.shards[index].name); });
    if (count > 0 && count < std::ssize(package.shards))
      return fail("plan.packages",
                  fmt::format("device {} would hold {} of {} shards of the package {}", device,
                              count, package.shards.size(), package.stem),
                  "pass --widths separate, so that each expert has a package");
  }
  return {};
}

std::string part_name(const ShardDecl& shard) {
  std::string name(enum_name(shard.kind));
  if (is_expert_group(shard.kind))
    name = fmt::format("expert_{}",
                       shard.expert_ids.empty() ? shard.first_expert : shard.expert_ids.front());
  if (shard.slices > 1) name += fmt::format("_s{}", shard.slice);
  return name;
}

}  // namespace moec
