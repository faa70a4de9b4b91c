// Evaluates ops on constants with the element functions of the reference executor.
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

// The result of an op on constants; nothing for ops that are not evaluated (contractions,
// reductions, softmax, top-k, casts to integers) and for results that hold a NaN. Elementwise ops
// on splats give splats.
std::optional<Constant> evaluate(const OpData& data, const std::vector<const Constant*>& operands,
                                 const Type& result);

}  // namespace moec
