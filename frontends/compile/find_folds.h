// For --fold-overflow, finds pairs of up and down projections in which one overflows f16 and the
// other has headroom (models/tensors/fold_scales.h).
#pragma once

#include "backends/weights/views/weight_reader.h"
#include "ir/model/plan.h"
#include "models/tensors/fold_scales.h"

namespace moec {

// Returns, for each such pair, the smallest power of two with which both projections fit f16. Omits
// pairs for which no power of two works; the export fails when it writes them. Adds the note
// export.folded_scale per pair, or the warning export.fold_inexact with the number of values that
// lose bits. Reads each projection once, and pairs that overflow several times. Errors: those of
// build_shard() and WeightReader::stream().
Result<ScaleFolds> find_folds(const Plan& plan, const WeightReader& reader, Diagnostics& notes);

}  // namespace moec
