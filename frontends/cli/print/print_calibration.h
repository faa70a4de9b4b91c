// What `moec calibrate` prints for people.
#pragma once

#include "frontends/jobs/calibrate/calibration_json.h"

namespace moec {

// How many tokens reached the experts of each layer, and which experts none reached.
void print_calibration(const FinishedCalibration& finished);

}  // namespace moec
