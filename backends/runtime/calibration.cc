#include "backends/runtime/calibration.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ir/base/regular_file.h"

namespace moec {
namespace {

using nlohmann::json;

struct Bias {
  const char* key;
  double manifest::Tagging::*field;
};

constexpr std::array kBiases = {
    Bias{"transition_bias_background_stay", &manifest::Tagging::stay_outside},
    Bias{"transition_bias_background_to_start", &manifest::Tagging::outside_to_start},
    Bias{"transition_bias_inside_to_continue", &manifest::Tagging::inside_to_inside},
    Bias{"transition_bias_inside_to_end", &manifest::Tagging::inside_to_end},
    Bias{"transition_bias_end_to_background", &manifest::Tagging::end_to_outside},
    Bias{"transition_bias_end_to_start", &manifest::Tagging::end_to_start}};

// Null where one of the keys leads nowhere.
const json* find_path(const json& root, std::initializer_list<const char*> keys) {
  const json* at = &root;
  for (const char* key : keys) {
    if (!at->is_object() || !at->contains(key)) return nullptr;
    at = &at->at(key);
  }
  return at;
}

Status bad_calibration(const std::string& path, std::string cause) {
  return fail("calibration.malformed", std::move(cause),
              "fetch the file again, or remove it to decode without biases", {.file = path});
}

}  // namespace

std::string calibration_path(const std::string& folder) {
  return (std::filesystem::path(folder) / kCalibrationFile).string();
}

Status read_calibration(const std::string& folder, manifest::Tagging& tagging) {
  const std::string path = calibration_path(folder);
  if (!file_exists(path)) return {};
  MOEC_ASSIGN(const std::string text, read_user_text(path, "calibration.malformed"));
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const json* biases = find_path(document, {"operating_points", "default", "biases"});
  if (biases == nullptr || !biases->is_object())
    return bad_calibration(path, "there is no object operating_points.default.biases");
  for (const Bias& bias : kBiases) {
    const json* value = find_path(*biases, {bias.key});
    if (value == nullptr || !value->is_number() || !std::isfinite(value->get<double>()))
      return bad_calibration(path, fmt::format("{} is not given, or is no number", bias.key));
    tagging.*bias.field = value->get<double>();
  }
  if (biases->size() != kBiases.size())
    return bad_calibration(
        path, fmt::format("there are {} biases, {} are known", biases->size(), kBiases.size()));
  return {};
}

}  // namespace moec
