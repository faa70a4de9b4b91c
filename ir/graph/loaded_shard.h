// What a reader of emitted files gives back: a shard, and where its weights lie.
#pragma once

#include "ir/graph/shard.h"
#include "ir/graph/weight_table.h"

namespace moec {

struct LoadedShard {
  Shard shard;          // in form `placed`; verifies
  WeightTable weights;  // byte ranges of the data files
};

}  // namespace moec
