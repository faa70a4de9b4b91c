#include "backends/runtime/text/tagger_biases.h"

#include <array>
#include <filesystem>

#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

// A key of the file and the field that it sets.
struct Bias {
  const char* key;
  double manifest::Tagging::*field;
};

// The keys of viterbi_calibration.json in the Privacy Filter release.
constexpr std::array kBiases = {
    Bias{"transition_bias_background_stay", &manifest::Tagging::stay_outside},
    Bias{"transition_bias_background_to_start", &manifest::Tagging::outside_to_start},
    Bias{"transition_bias_inside_to_continue", &manifest::Tagging::inside_to_inside},
    Bias{"transition_bias_inside_to_end", &manifest::Tagging::inside_to_end},
    Bias{"transition_bias_end_to_background", &manifest::Tagging::end_to_outside},
    Bias{"transition_bias_end_to_start", &manifest::Tagging::end_to_start}};

constexpr const char* kMalformed = "calibration.malformed";

// Requires each bias exactly once and refuses unknown keys.
Status read_biases(JsonFields& fields, manifest::Tagging& tagging) {
  for (const Bias& bias : kBiases) MOEC_TRY(fields.number(bias.key, tagging.*bias.field));
  return fields.finish();
}

}  // namespace

std::string calibration_path(const std::string& folder) {
  return (std::filesystem::path(folder) / kCalibrationFile).string();
}

Status read_calibration(const std::string& folder, manifest::Tagging& tagging) {
  const std::string path = calibration_path(folder);
  if (!file_exists(path)) return {};
  MOEC_ASSIGN(const std::string text, read_user_text(path, kMalformed));
  const JsonReport report(
      text, path,
      JsonCodes::all_as(kMalformed,
                        "download the file again, or remove it to decode without biases"));
  MOEC_ASSIGN(const JsonValue root, report.parse());
  MOEC_ASSIGN(JsonFields document, JsonFields::of(report, root));
  MOEC_ASSIGN(JsonFields points, document.object("operating_points"));
  MOEC_ASSIGN(JsonFields point, points.object("default"));
  MOEC_ASSIGN(JsonFields biases, point.object("biases"));
  return read_biases(biases, tagging);
}

}  // namespace moec
