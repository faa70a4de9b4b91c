// Ops on constants, evaluated with the same element functions as the reference executor.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph/ops.h"

namespace moec {

// Element i of a constant, in row-major order.
inline double element(const Constant& constant, int64_t i) {
  return constant.values.size() == 1 ? constant.values[0] : constant.values[static_cast<size_t>(i)];
}

// Every element has this value.
bool is_splat_of(const Constant& constant, double value);

// What an op on constants yields; nothing for the kinds of op that are not evaluated (contractions,
// reductions, softmax, top-k, casts to integers). Splats stay splats where that is cheap to see.
std::optional<Constant> evaluate(const OpData& data, const std::vector<const Constant*>& operands,
                                 const Type& result);

}  // namespace moec
