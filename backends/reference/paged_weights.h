// Weights of a shard as matrices; those that a WeightPager manages, and the ops that use them.
#pragma once

#include <map>
#include <optional>

#include "backends/weights/views/held_view.h"
#include "backends/weights/views/weight_pager.h"
#include "backends/weights/views/weight_reader.h"
#include "ir/graph/shard.h"

namespace moec {

// A weight, or a transpose or reshape of a weight, with its view.
struct WeightMatrix {
  WeightView view;
  bool is_turned = false;  // the value is the view with its last two axes swapped
};

using WeightMatrices = IdVector<ValueId, std::optional<WeightMatrix>>;

// Returns the weights whose values are stored in a file. If `turns` is set, a transpose that swaps
// only the last two axes keeps the stored view and toggles is_turned; every other transpose becomes
// a step of the view.
WeightMatrices find_weight_matrices(const Shard& shard, bool turns);

// True if the permutation swaps the last two axes and keeps all others.
bool swaps_last_axes(const Dims& perm);

// True if the op can read the weight in this operand in its stored form.
bool reads_stored(const Shard& shard, const Op& op, size_t operand, bool is_turned);

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
