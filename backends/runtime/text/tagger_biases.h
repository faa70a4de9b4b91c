// The biases for transitions between the labels of a token classifier, in the file that the release
// of Privacy Filter keeps beside its weights.
#pragma once

#include <string>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

inline constexpr const char* kCalibrationFile = "viterbi_calibration.json";

// The path of the file in a checkpoint's folder.
std::string calibration_path(const std::string& folder);

// Fills in the biases of the operating point "default":
//   {"operating_points": {"default": {"biases": {"transition_bias_background_stay": 0.0, …}}}}
// If there is no such file, they stay as they are. Error calibration.malformed: the file has
// another form, lacks a bias, or has an unknown one.
Status read_calibration(const std::string& folder, manifest::Tagging& tagging);

}  // namespace moec
