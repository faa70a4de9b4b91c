// The folder of a calibration while it is written: its index, and the state between two layers.
#pragma once

#include "backends/weights/calibration/calibration_index.h"
#include "frontends/jobs/calibrate/run_files.h"

namespace moec {

// Takes over the index of the unfinished calibration in the folder, which must be that of `index`:
// of the same checkpoint, text and window; with `extend` also that of a finished calibration that
// has no sensitivities. An empty folder changes nothing. Errors: calibrate.out_not_empty,
// calibrate.differs, calibrate.malformed.
Status resume_index(const std::string& folder, CalibrationIndex& index, bool extend);

// The values between layers of the unfinished calibration in the folder.
RunFiles calibration_state(const std::string& folder);

// Writes the values that steps from `next_step` on take, and then the index, which names them.
Status write_state(const std::string& folder, size_t next_step, WindowRun& run,
                   CalibrationIndex& index);

// Writes the finished index and removes the state.
Status finish_folder(const std::string& folder, CalibrationIndex& index);

}  // namespace moec
