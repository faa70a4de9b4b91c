// Finds up and down projections of which one overflows f16 and the other has room, for
// --fold-overflow (models/tensors/fold_scales.h).
#pragma once

#include "backends/weights/views/weight_reader.h"
#include "ir/model/plan.h"
#include "models/tensors/fold_scales.h"

namespace moec {

// Reads all up and down projections of the plan once, and those that overflow once more. A pair
// gets the smallest power of two with which both fit; a pair that none helps gets no entry, and its
// overflow ends the export where it is written. Notes: export.folded_scale; as a warning with the
// number of values that lose bits, export.fold_inexact. Errors: those of build_shard() and
// WeightReader::stream().
Result<ScaleFolds> find_folds(const Plan& plan, const WeightReader& reader, Diagnostics& notes);

}  // namespace moec
