// Calibration: runs a text through a checkpoint, layer by layer, and writes the second moments of
// what each matrix is applied to (backends/weights/calibration/calibration_index.h).
#pragma once

#include "backends/weights/calibration/calibration_index.h"
#include "frontends/jobs/calibrate/calibrate_options.h"

namespace moec {

struct CalibrationReport {
  CalibrationIndex index;
  int64_t unused_tokens = 0;  // behind the last whole window
  size_t resumed_layers = 0;  // that an earlier run had finished
  uint64_t bytes = 0;         // of the statistics
  Diagnostics notes;
};

// Writes into options.folder, which must be empty, missing, or hold the unfinished calibration of
// the same checkpoint and text: that one goes on behind its last finished layer. The bytes are
// those of an undisturbed calibration. The weights of one layer, or of a group of its experts, are
// in memory at a time; the hidden states of all tokens are in memory, and on disk between layers.
//
// Errors: those of read_calibration_text(), open_source() and plan_model(); calibrate.window,
// calibrate.out_not_empty, calibrate.differs, calibrate.damaged, calibrate.nonfinite,
// calibrate.interrupted; those of Executor and of writing.
Result<CalibrationReport> calibrate_model(const CalibrateOptions& options);

}  // namespace moec
