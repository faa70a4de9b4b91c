// The report of `moec calibrate`.
#pragma once

#include <string>

#include "frontends/calibrate/calibrate_model.h"

namespace moec {

struct FinishedCalibration {
  const std::string& folder;
  const CalibrationReport& report;
  double seconds = 0;
};

// How many tokens reached the experts of each layer, and which experts none reached.
void print_calibration(const FinishedCalibration& finished);
void print_calibration_json(const FinishedCalibration& finished);

}  // namespace moec
