#include "frontends/export/export_units.h"

#include <algorithm>
#include <map>
#include <set>

namespace moec {
namespace {

// Places in the model: layer n has its attention at 2n and the rest at 2n + 1, then comes the head.
struct Stretch {
  int64_t begin = 0, end = 0;
};

Stretch stretch_of(const Plan& plan, const ShardDecl& shard) {
  const int64_t place = 2 * shard.layer;
  switch (shard.kind) {
    case ShardKind::attention:
      return {place, place + 1};
    case ShardKind::layers:
      return {place, place + 2 * shard.layers};
    case ShardKind::lm_head:
      break;
    default:
      return {place + 1, place + 2};
  }
  const auto layers = std::ssize(plan.model.layers);
  return {2 * layers, 2 * layers + 1};
}

// Places where a unit begins: no shard of any plan goes across.
std::set<int64_t> unit_begins(std::span<const Plan* const> plans) {
  std::set<int64_t> begins, inside;
  for (const Plan* plan : plans)
    for (const ShardDecl& shard : plan->shards) {
      const Stretch stretch = stretch_of(*plan, shard);
      begins.insert(stretch.begin);
      for (int64_t place = stretch.begin + 1; place < stretch.end; ++place) inside.insert(place);
    }
  std::erase_if(begins, [&](int64_t place) { return inside.contains(place); });
  return begins;
}

std::vector<ExportUnit> single_shards(const Plan& plan) {
  std::vector<ExportUnit> units;
  for (size_t shard = 0; shard < plan.shards.size(); ++shard) units.push_back({{{shard}}});
  return units;
}

}  // namespace

std::vector<ExportUnit> export_units(std::span<const Plan* const> plans) {
  if (plans.size() == 1) return single_shards(*plans.front());
  std::map<int64_t, ExportUnit> units;
  for (const int64_t begin : unit_begins(plans)) units[begin].shards.resize(plans.size());
  for (size_t target = 0; target < plans.size(); ++target) {
    const Plan& plan = *plans[target];
    for (size_t shard = 0; shard < plan.shards.size(); ++shard) {
      const int64_t place = stretch_of(plan, plan.shards[shard]).begin;
      std::prev(units.upper_bound(place))->second.shards[target].push_back(shard);
    }
  }
  std::vector<ExportUnit> ordered;
  for (auto& [begin, unit] : units) ordered.push_back(std::move(unit));
  return ordered;
}

}  // namespace moec
