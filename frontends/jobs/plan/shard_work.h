// Counts the work of one run of a compiled shard by the plan of the engine `cpu`
// (backends/reference/program.h). What the engine skips, because no token chose an expert or no
// token sees a key, is not counted.
#pragma once

#include "ir/graph/shard.h"
#include "models/plan/forecast.h"

namespace moec {

struct WorkSetting {
  double tokens = 1;         // of the run; the shard's token width
  double cached_keys = 0;    // filled rows of the cache that the tokens see
  double expert_chance = 1;  // chance that a token of the run chooses a given expert
  double expert_tokens = 1;  // tokens that chose an expert, if any did
};

// `shard` must be in form `placed`.
ShardWork count_work(const Shard& shard, const WorkSetting& setting);

}  // namespace moec
