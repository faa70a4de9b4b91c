// The result of a reader of emitted files: a shard and the location of its weights.
#pragma once

#include "ir/graph/shard.h"
#include "ir/graph/weight_table.h"

namespace moec {

struct LoadedShard {
  Shard shard;          // in form `placed`; verifies
  WeightTable weights;  // byte ranges of the data files
};

}  // namespace moec
