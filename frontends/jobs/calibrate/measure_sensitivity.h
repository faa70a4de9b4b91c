// Measures how much the predictions of a model suffer from errors of its experts, for `--weights
// auto:BITS` (backends/weights/calibration/sensitivity.h).
#pragma once

#include "backends/runtime/text/token_windows.h"
#include "backends/weights/calibration/sensitivity.h"
#include "backends/weights/views/weight_reader.h"
#include "frontends/jobs/calibrate/work_meter.h"
#include "ir/model/plan.h"

namespace moec {

// Encodes the matrices of the experts with each number of bits. Runs windows of the text, evenly
// spread over it, through the model once as it is, and once for each layer and role of its experts
// with few bits for that role, and compares the predictions; all runs go through a layer together,
// so that its weights are read once. Codes are those of the calibration: what they leave of an
// error disturbs the predictions in other ways than what nearest codes do. options.folder holds the
// finished calibration; sensitivity.json is added to it. There are as many windows as
// options.group_bytes has room for the hidden states of all runs, at most 2,048 tokens and at least
// one window; the experts in few bits take about as much once more. A measurement that was stopped
// goes on behind its last finished layer, if it is of the same windows.
//
// Errors: calibrate.no_experts, calibrate.interrupted; those of CalibrationStats, Executor and of
// writing.
Status measure_sensitivity(const WorkMeter& meter, const Plan& plan, const TokenWindows& text,
                           const WeightReader& weights);

// Adds to the meter's total what measure_sensitivity() is going to do. Errors: those of
// tap_shard().
Status add_sensitivity_work(WorkMeter& meter, const Plan& plan, const TokenWindows& text);

}  // namespace moec
