// Sums over the shards of a check.
#pragma once

#include <cstdint>
#include <vector>

#include "frontends/jobs/check/check_folder.h"

namespace moec {

struct BrokenRule {
  const TargetRule* rule = nullptr;  // of the report's target
  size_t files = 0;
  int64_t ops = 0;
};

// The rules that any shard breaks, in the order of the target.
std::vector<BrokenRule> broken_rules(const CheckReport& report);

// Of the narrowest file of each shard.
int64_t checked_weight_bytes(const CheckReport& report);

// Changes of the unit, in all files of the shard.
int64_t transitions(const CheckedShard& shard);

}  // namespace moec
