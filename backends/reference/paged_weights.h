// Which weights of a shard a WeightPager has, and when a run needs them.
#pragma once

#include <map>
#include <optional>

#include "backends/weights/views/held_view.h"
#include "backends/weights/views/weight_pager.h"
#include "backends/weights/views/weight_reader.h"
#include "ir/graph/shard.h"

namespace moec {

struct PagedWeight {
  size_t unit = 0;
  HeldView view;
  bool as_tensor = false;  // an op takes it that needs all elements as f32: a bias
};

struct PagedWeights {
  IdVector<ValueId, std::optional<PagedWeight>> values;
  std::map<size_t, uint32_t> last_ops;  // of each unit: index of the last op that takes of it
};

// Whether the op can take this operand as it is stored.
bool takes_stored(const Shard& shard, const Op& op, size_t operand);

// The weights whose bytes all belong to one unit, and transposes and reshapes of them. None without
// a pager. Errors: those of WeightReader::cost().
Result<PagedWeights> find_paged(const Shard& shard, const WeightTable& table,
                                const WeightPager* pager);

}  // namespace moec
