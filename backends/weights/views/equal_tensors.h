// Whether two stored tensors have the same bytes.
#pragma once

#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"

namespace moec {

// Compares two tensors of one type, which are in the table's files, block by block up to the first
// difference. Equal bytes are compared, not equal values: 0 and -0 differ. Errors: those of
// PayloadFile.
Result<bool> equal_tensors(const WeightTable& table, const TensorRange& a, const TensorRange& b);

}  // namespace moec
