// Measures the experts of a checkpoint. As in a calibration, each layer runs on the whole text
// before the next one. Only the weights of one layer, or of a group of its experts, are in memory.
#pragma once

#include "frontends/measure/measurement.h"

namespace moec {

// If `sums`, also computes the sums for an imatrix. Errors: those of open_source(),
// read_analysis_text() and plan_model(); analyze.no_experts, analyze.nonfinite,
// analyze.interrupted; those of Executor.
Result<Measurement> measure_checkpoint(const AnalyzeOptions& options, bool sums);

}  // namespace moec
