// The tokens of a calibration.
#pragma once

#include "backends/runtime/text/token_windows.h"
#include "frontends/jobs/calibrate/calibrate_options.h"
#include "ir/model/model_config.h"

namespace moec {

// Reads the texts or token ids that the options name. Errors: those of read_windows(), as
// calibrate.….
Result<TokenWindows> read_calibration_text(const CalibrateOptions& options,
                                           const ModelConfig& model);

}  // namespace moec
