// The tokens of a calibration.
#pragma once

#include <vector>

#include "frontends/calibrate/calibrate_options.h"
#include "ir/base/diagnostics.h"
#include "ir/plan/model_config.h"

namespace moec {

// Whole windows of tokens; what is left over behind them is not used. A text that is shorter than a
// window is one window.
struct CalibrationText {
  std::vector<int64_t> tokens;
  int64_t window = 0;
  int64_t unused = 0;  // tokens behind the last window

  int64_t windows() const { return std::ssize(tokens) / window; }
};

// Reads the texts, one after the other, or the file of token ids. Errors: calibrate.text (a file
// cannot be read), calibrate.empty, calibrate.no_tokenizer, calibrate.tokens (not a token id),
// calibrate.vocabulary (a token id that the model does not have).
Result<CalibrationText> read_calibration_text(const CalibrateOptions& options,
                                              const ModelConfig& model);

}  // namespace moec
