// Measures how errors of experts change a model's predictions, for `--weights auto:BITS`
// (backends/weights/calibration/sensitivity.h).
#pragma once

#include "backends/weights/calibration/sensitivity.h"
#include "backends/weights/views/weight_reader.h"
#include "frontends/jobs/calibrate/work_meter.h"
#include "frontends/measure/text.h"
#include "ir/model/plan.h"

namespace moec {

// Quantizes expert matrices with each bit width. Runs evenly spaced windows of the text through the
// original model and through one variant per layer and role of expert matrices. A variant quantizes
// only the matrices of its layer and role. Compares the predictions. All runs finish a layer before
// the next layer begins, so that its weights are read only once. Quantizes with the calibration,
// because the error of calibrated codes affects predictions differently from that of nearest codes.
//
// options.folder must contain the finished calibration and receives sensitivity.json. Uses as many
// windows as fit, at least one: the hidden states of all runs fit options.group_bytes, and the
// windows have at most 2,048 tokens in total. The quantized experts need about the same memory
// again. A stopped measurement of the same windows resumes after its last finished layer.
//
// Errors: calibrate.no_experts, calibrate.interrupted; those of CalibrationStats and Executor;
// write errors.
Status measure_sensitivity(const WorkMeter& meter, const Plan& plan, const Text& text,
                           const WeightReader& weights);

// Adds the work of measure_sensitivity() to the meter's total. Errors: those of tap_shard().
Status add_sensitivity_work(WorkMeter& meter, const Plan& plan, const Text& text);

}  // namespace moec
