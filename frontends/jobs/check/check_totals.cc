#include "frontends/jobs/check/check_totals.h"

#include <map>
#include <set>
#include <string_view>

namespace moec {

std::vector<BrokenRule> broken_rules(const CheckReport& report) {
  struct Count {
    std::set<std::string_view> files;
    int64_t ops = 0;
  };
  std::map<const TargetRule*, Count> counts;
  for (const RuleFinding& found : report.rules) {
    counts[found.rule].files.insert(found.file);
    counts[found.rule].ops += found.ops;
  }
  std::vector<BrokenRule> broken;
  for (const TargetRule& rule : report.target.rules)
    if (const auto found = counts.find(&rule); found != counts.end())
      broken.push_back({&rule, found->second.files.size(), found->second.ops});
  return broken;
}

int64_t checked_weight_bytes(const CheckReport& report) {
  int64_t bytes = 0;
  for (const CheckedShard& shard : report.shards) bytes += shard.weight_bytes;
  return bytes;
}

int64_t transitions(const CheckedShard& shard) {
  int64_t count = 0;
  for (const CheckedWidth& width : shard.widths) count += width.placement.transitions;
  return count;
}

}  // namespace moec
