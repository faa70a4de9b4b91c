// Result of reading an emitted file: a shard, the locations of its weights, and their owners.
#pragma once

#include <optional>

#include "ir/graph/shard.h"
#include "ir/graph/weight_owner.h"
#include "ir/graph/weight_table.h"

namespace moec {

struct LoadedShard {
  Shard shard;          // in form `placed`; verifies
  WeightTable weights;  // byte ranges of the data files
  // From the file's metadata, keyed by the names in `weights`; absent if the metadata has no
  // owners.
  std::optional<WeightOwners> owners;
  // The node of the file that computes each op: the name of an ONNX node, the first output of a
  // TFLite operator, the output of an ML program's op, or "write_state STATE". Several ops may be
  // parts of one node; an op may have none, and weights and constants have none.
  IdMap<OpId, std::string> nodes;
};

}  // namespace moec
