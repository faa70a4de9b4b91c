// The report of a calibration as JSON (ir/base/report_json.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "frontends/jobs/calibrate/calibrate_model.h"

namespace moec {

struct FinishedCalibration {
  const std::string& folder;
  const CalibrationReport& report;
  double seconds = 0;
};

// The folder, and of each layer the tokens of its experts and those never chosen.
nlohmann::ordered_json calibration_json(const FinishedCalibration& finished);

// The tokens of the experts of a layer, in their order; empty for a layer without.
std::vector<int64_t> tokens_of_experts(const CalibratedLayer& layer);

// Which of these are 0.
std::vector<size_t> experts_without_tokens(const std::vector<int64_t>& tokens);

}  // namespace moec
