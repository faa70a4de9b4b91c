#include "frontends/jobs/calibrate/calibration_json.h"

#include <nlohmann/json.hpp>

#include "ir/base/report_json.h"

namespace moec {

using nlohmann::ordered_json;

// A layer without experts yields an empty list, for which the report omits the fields about
// experts.
std::vector<int64_t> tokens_of_experts(const CalibratedLayer& layer) {
  std::vector<int64_t> tokens;
  for (const CalibratedInput& input : layer.inputs)
    if (!input.pool.empty()) tokens.push_back(input.tokens);
  return tokens;
}

std::vector<size_t> experts_without_tokens(const std::vector<int64_t>& tokens) {
  std::vector<size_t> none;
  for (size_t e = 0; e < tokens.size(); ++e)
    if (tokens[e] == 0) none.push_back(e);
  return none;
}

ordered_json calibration_json(const FinishedCalibration& finished) {
  const CalibrationReport& report = finished.report;
  ordered_json layers = ordered_json::array();
  for (const CalibratedLayer& layer : report.index.layers) {
    const std::vector<int64_t> tokens = tokens_of_experts(layer);
    ordered_json json = {{"layer", layer.layer}, {"inputs", layer.inputs.size()}};
    if (!tokens.empty()) {
      json["expert_tokens"] = tokens;
      json["never_chosen"] = experts_without_tokens(tokens);
    }
    layers.push_back(std::move(json));
  }
  ordered_json whole = {{"out", finished.folder},        {"checkpoint", report.index.checkpoint},
                        {"tokens", report.index.tokens}, {"unused_tokens", report.unused_tokens},
                        {"window", report.index.window}, {"resumed_layers", report.resumed_layers},
                        {"bytes", report.bytes},         {"seconds", finished.seconds},
                        {"layers", std::move(layers)}};
  if (finished.part)
    whole["part"] = {{"index", finished.part->index}, {"count", finished.part->count}};
  return report_json(true, whole, report.notes);
}

}  // namespace moec
