// Compares the bytes of two stored tensors.
#pragma once

#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"

namespace moec {

// Returns true if two tensors of the same type have equal bytes. Reads the table's files block by
// block, up to the first difference. Compares bytes, not values: 0 and -0 differ. Errors: those of
// PayloadFile.
Result<bool> equal_tensors(const WeightTable& table, const TensorRange& a, const TensorRange& b);

}  // namespace moec
