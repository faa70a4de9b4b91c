// Weights of a shard that a WeightPager manages, and the ops that use them.
#pragma once

#include <map>
#include <optional>

#include "backends/reference/weight_matrices.h"
#include "backends/weights/views/held_view.h"
#include "backends/weights/views/weight_pager.h"
#include "backends/weights/views/weight_reader.h"

namespace moec {

struct PagedWeight {
  size_t unit = 0;
  HeldView view;
  bool is_turned = false;  // WeightMatrix::is_turned
  bool as_tensor = false;  // an op needs all elements as f32, e.g. as a bias
};

struct PagedWeights {
  IdVector<ValueId, std::optional<PagedWeight>> values;
  std::map<size_t, uint32_t> last_ops;  // unit → index of the last op that uses it
};

// Returns the weights whose bytes all belong to one unit, and their transposes and reshapes.
// Returns none if `pager` is null. Errors: those of WeightReader::cost().
Result<PagedWeights> find_paged(const Shard& shard, const WeightMatrices& matrices,
                                const WeightTable& table, const WeightPager* pager);

}  // namespace moec
