// The tokens of a calibration.
#pragma once

#include "backends/runtime/token_windows.h"
#include "frontends/calibrate/calibrate_options.h"
#include "ir/plan/model_config.h"

namespace moec {

// Reads the texts or token ids that the options name. Errors: those of read_windows(), as
// calibrate.….
Result<TokenWindows> read_calibration_text(const CalibrateOptions& options,
                                           const ModelConfig& model);

}  // namespace moec
