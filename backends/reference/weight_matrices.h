// Weights of a shard as matrices: a weight, or a transpose or reshape of a weight, with its view.
#pragma once

#include <optional>

#include "ir/graph/shard.h"

namespace moec {

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

}  // namespace moec
