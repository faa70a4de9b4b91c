// Measures the experts of a checkpoint: its layers run one after the other on the whole text, as in
// a calibration, so that the weights of one layer, or of a group of its experts, are in memory.
#pragma once

#include "frontends/measure/measurement.h"

namespace moec {

// `sums` says whether those of an imatrix are taken as well. Errors: those of open_source(),
// read_analysis_text() and plan_model(); analyze.no_experts, analyze.nonfinite,
// analyze.interrupted; those of Executor.
Result<Measurement> measure_checkpoint(const AnalyzeOptions& options, bool sums);

}  // namespace moec
