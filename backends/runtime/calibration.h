// Biases of the transitions between a token classifier's labels, as the release of Privacy Filter
// keeps them beside its weights.
#pragma once

#include <string>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

inline constexpr const char* kCalibrationFile = "viterbi_calibration.json";

// Where a checkpoint's folder keeps the file.
std::string calibration_path(const std::string& folder);

// Fills in the biases of the operating point "default":
//   {"operating_points": {"default": {"biases": {"transition_bias_background_stay": 0.0, …}}}}
// Without the file they are left as they are. Error calibration.malformed where it has another
// form, lacks a bias or has one more.
Status read_calibration(const std::string& folder, manifest::Tagging& tagging);

}  // namespace moec
