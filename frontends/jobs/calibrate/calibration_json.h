// The report of a calibration as JSON (ir/base/report_json.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "frontends/jobs/calibrate/calibrate_model.h"
#include "ir/base/share.h"

namespace moec {

struct FinishedCalibration {
  const std::string& folder;
  const CalibrationReport& report;
  double seconds = 0;
  std::optional<JobShare> part;  // then `report` has only its layers
};

// Contains the folder and, per layer, the tokens of each expert and the experts without tokens.
nlohmann::ordered_json calibration_json(const FinishedCalibration& finished);

// Returns the tokens per expert of a layer, by expert index; empty for a layer without experts.
std::vector<int64_t> tokens_of_experts(const CalibratedLayer& layer);

// Returns the indices of experts with zero tokens.
std::vector<size_t> experts_without_tokens(const std::vector<int64_t>& tokens);

}  // namespace moec
