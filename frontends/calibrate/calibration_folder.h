// The folder of a calibration while it is written: its index, and the state between two layers.
#pragma once

#include <span>

#include "frontends/calibrate/window_run.h"

namespace moec {

std::string digest_of_tokens(std::span<const int64_t> tokens);

// Takes over the index of the unfinished calibration in the folder, which must be that of `index`:
// of the same checkpoint, text and window; with `extend` also that of a finished calibration that
// has no sensitivities. An empty folder changes nothing. Errors: calibrate.out_not_empty,
// calibrate.differs, calibrate.malformed.
Status resume_index(const std::string& folder, CalibrationIndex& index, bool extend);

// Writes the values that steps from `next` on take, and then the index, with `next` and them.
Status write_state(const std::string& folder, size_t next, WindowRun& run, CalibrationIndex& index);

// Reads them back. Error calibrate.damaged.
Status read_state(const std::string& folder, const CalibrationIndex& index,
                  const TokenWindows& text, WindowRun& run);

// Writes the finished index and removes the state.
Status finish_folder(const std::string& folder, CalibrationIndex& index);

}  // namespace moec
