// The result of a reader of emitted files: a shard, the location of its weights, and their owners.
#pragma once

#include <optional>

#include "ir/graph/shard.h"
#include "ir/graph/weight_owner.h"
#include "ir/graph/weight_table.h"

namespace moec {

struct LoadedShard {
  Shard shard;          // in form `placed`; verifies
  WeightTable weights;  // byte ranges of the data files
  // As the file's metadata states them, by the names in `weights`; nothing where it states none.
  std::optional<WeightOwners> owners;
};

}  // namespace moec
