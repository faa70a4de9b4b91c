// The folder of an unfinished calibration: its index, and the hidden states after its last layer.
#pragma once

#include <string>

#include "backends/weights/calibration/calibration_index.h"
#include "frontends/jobs/calibrate/run_files.h"

namespace moec {

// Files with the hidden states between two layers of an unfinished calibration.
RunFiles calibration_state(const std::string& folder);

// Error calibrate.out_not_empty: the folder contains other files than those of parts and locks.
Status check_free(const std::string& folder);

// Checks that the calibration `stored` of `folder` can be continued as `index`: it has the same
// checkpoint, text and window, and an unfinished one also the same `inputs`. With `extend`, accepts
// a finished calibration without sensitivities. Errors: calibrate.out_not_empty, calibrate.differs,
// calibrate.not_joined (`stored` is divided, `index` is not).
Status check_same(const std::string& folder, const CalibrationIndex& stored,
                  const CalibrationIndex& index, bool extend);

// Loads the index of the calibration in the folder into `index`. Writes `index` if the folder is
// empty. Errors: those of check_free(), check_same() and read_calibration_index().
Status resume_index(const std::string& folder, CalibrationIndex& index, bool extend);

// Writes the values that `next_step` and later steps read, then the index that refers to them.
// `next_layer` is the number of layers that have run.
Status write_state(const std::string& folder, size_t next_step, int64_t next_layer, WindowRun& run,
                   CalibrationIndex& index);

// Writes the finished index and removes the state.
Status finish_folder(const std::string& folder, CalibrationIndex& index);

}  // namespace moec
