// Transition biases between the labels of a token classifier, read from the file that the Privacy
// Filter release ships next to its weights.
#pragma once

#include <string>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

inline constexpr const char* kCalibrationFile = "viterbi_calibration.json";

// Returns the path of the file in a checkpoint's folder.
std::string calibration_path(const std::string& folder);

// Reads the biases of the operating point "default":
//   {"operating_points": {"default": {"biases": {"transition_bias_background_stay": 0.0, …}}}}
// If the file does not exist, leaves the biases unchanged. Error: calibration.malformed (unexpected
// structure, or a missing or unknown bias).
Status read_calibration(const std::string& folder, manifest::Tagging& tagging);

}  // namespace moec
