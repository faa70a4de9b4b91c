#include "frontends/export/export_units.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "ir/base/at.h"

namespace moec {
namespace {

// A range of positions in the model: the attention of layer n has position 2n, its feed-forward
// part 2n + 1, and the head follows the last layer. `end` is exclusive.
struct PositionRange {
  int64_t begin = 0, end = 0;
};

PositionRange positions_of(const Plan& plan, const ShardDecl& shard) {
  const int64_t first = 2 * shard.layer;
  // Targets may cut a model differently, but they have the same layers. Positions are therefore
  // comparable between plans.
  const int64_t end = 2 * std::ssize(plan.model.layers);
  switch (shard.kind) {
    case ShardKind::attention:
      return {first, first + 1};
    case ShardKind::moe:
    case ShardKind::mlp:
    case ShardKind::router:
    case ShardKind::shared:
    case ShardKind::experts:
      return {first + 1, first + 2};
    case ShardKind::layers:
      return {first, first + 2 * shard.layers};
    case ShardKind::lm_head:
      return {end, end + 1};
  }
  return {};
}

// Positions at which units begin: a shard of some plan begins there, and no shard of any plan spans
// the position.
std::set<int64_t> unit_begins(const std::vector<PackagedPlan>& targets) {
  std::set<int64_t> begins, inside;
  for (const PackagedPlan& target : targets)
    for (const ShardDecl& shard : target.plan->shards) {
      const PositionRange range = positions_of(*target.plan, shard);
      begins.insert(range.begin);
      // A unit that began inside a shard would split the shard between two units.
      for (int64_t i = range.begin + 1; i < range.end; ++i) inside.insert(i);
    }
  std::erase_if(begins, [&](int64_t position) { return inside.contains(position); });
  return begins;
}

std::vector<ExportUnit> single_packages(std::vector<ShardPackage> packages) {
  std::vector<ExportUnit> units;
  for (ShardPackage& package : packages) units.push_back({{{std::move(package)}}});
  return units;
}

}  // namespace

std::vector<ShardPackage> packages_of_share(const JobShare& share,
                                            std::vector<ShardPackage> packages,
                                            std::span<const uint64_t> shard_bytes,
                                            uint64_t table_bytes) {
  const auto count = static_cast<uint64_t>(share.count);
  // At least 1 per package, so that packages without weights are distributed as well.
  std::vector<uint64_t> bytes;
  for (const ShardPackage& package : packages) {
    uint64_t sum = 1;
    for (const size_t shard : package.shards) sum += at(shard_bytes, shard);
    bytes.push_back(sum);
  }
  const uint64_t total = std::accumulate(bytes.begin(), bytes.end(), table_bytes);
  std::vector<ShardPackage> selected;
  uint64_t begin = table_bytes;
  for (size_t i = 0; i < packages.size(); ++i) {
    // The share that contains the middle of the package, in floats, because bytes times N could
    // overflow. Each process computes the same number.
    const uint64_t middle = begin + bytes[i] / 2;
    const auto owner = static_cast<uint64_t>(
        static_cast<double>(middle) / static_cast<double>(total) * static_cast<double>(count));
    if (std::min(owner, count - 1) == static_cast<uint64_t>(share.index))
      selected.push_back(std::move(packages[i]));
    begin += bytes[i];
  }
  return selected;
}

std::vector<ExportUnit> export_units(std::vector<PackagedPlan> targets) {
  // A single target shares no reads, so each package is a unit and more jobs can run at once.
  if (targets.size() == 1) return single_packages(std::move(targets.front().packages));
  std::map<int64_t, ExportUnit> units;
  for (const int64_t begin : unit_begins(targets)) units[begin].packages.resize(targets.size());
  for (size_t target = 0; target < targets.size(); ++target) {
    const Plan& plan = *targets[target].plan;
    for (ShardPackage& package : targets[target].packages) {
      // The shards of a package have the same position.
      const int64_t begin = positions_of(plan, plan.shards[package.shards.front()]).begin;
      // The last unit that begins at or before the shard. It exists, because the smallest begin of
      // all shards begins a unit.
      std::prev(units.upper_bound(begin))->second.packages[target].push_back(std::move(package));
    }
  }
  std::vector<ExportUnit> ordered;
  // The map orders units by position, hence in model order.
  for (auto& [begin, unit] : units) ordered.push_back(std::move(unit));
  return ordered;
}

}  // namespace moec
