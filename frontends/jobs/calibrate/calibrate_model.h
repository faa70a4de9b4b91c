// Calibration: runs a text through a checkpoint, layer by layer, and writes the second moments of
// each matrix's inputs (backends/weights/calibration/calibration_index.h).
#pragma once

#include "backends/weights/calibration/calibration_index.h"
#include "frontends/jobs/calibrate/calibrate_options.h"

namespace moec {

struct CalibrationReport {
  CalibrationIndex index;
  int64_t unused_tokens = 0;  // tokens after the last whole window
  size_t resumed_layers = 0;  // layers that an earlier run had finished
  uint64_t bytes = 0;         // size of the statistics
  Diagnostics notes;
};

// Writes into options.folder, which must be missing, empty, or contain an unfinished calibration of
// the same checkpoint and text. An unfinished calibration resumes after its last finished layer and
// yields the same bytes as an uninterrupted run. Keeps in memory the weights of one layer, or of a
// group of its experts, and the hidden states of all tokens. After each layer, also saves the
// hidden states to disk.
//
// Errors: those of read_calibration_text(), open_source() and plan_model(); calibrate.window,
// calibrate.out_not_empty, calibrate.differs, calibrate.damaged, calibrate.nonfinite,
// calibrate.interrupted, calibrate.no_space; those of Executor; write errors.
Result<CalibrationReport> calibrate_model(const CalibrateOptions& options);

}  // namespace moec
