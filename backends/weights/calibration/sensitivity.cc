#include "backends/weights/calibration/sensitivity.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "backends/files/digest.h"
#include "backends/weights/calibration/calibration_index.h"
#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

using SensitivityJson = nlohmann::ordered_json;

// Version 1 lacks the digest of the file's own text.
constexpr int64_t kSensitivityVersion = 2;
constexpr std::array<const char*, kMeasuredBits.size()> kBitsNames = {"bits2", "bits3", "bits4",
                                                                      "bits6"};
constexpr const char* kMeasure =
    "run moec calibrate --sensitivity with this folder and the same text";
constexpr JsonLimits kSensitivityLimits{.bytes = 256 << 20, .values = 16 << 20};

SensitivityJson tensor_json(const TensorErrors& tensor) {
  SensitivityJson json = {{"role", tensor.role}, {"elements", tensor.elements}};
  if (tensor.expert >= 0) json["expert"] = tensor.expert;
  for (size_t b = 0; b < kMeasuredBits.size(); ++b) json[kBitsNames[b]] = tensor.errors[b];
  return json;
}

SensitivityJson layer_json(const LayerSensitivity& layer) {
  auto roles = SensitivityJson::array(), tensors = SensitivityJson::array();
  for (const RoleSensitivity& role : layer.roles)
    roles.push_back({{"role", role.role}, {"kl", role.kl}});
  for (const TensorErrors& tensor : layer.tensors) tensors.push_back(tensor_json(tensor));
  return {{"layer", layer.layer}, {"roles", std::move(roles)}, {"tensors", std::move(tensors)}};
}

Status read_not_negative(JsonFields& fields, std::string_view name, double& number) {
  MOEC_TRY(fields.number(name, number));
  return number >= 0 ? Status() : fields.bad(name, "must not be negative");
}

Status read_role(JsonFields& fields, LayerSensitivity& layer) {
  RoleSensitivity role;
  MOEC_TRY(fields.text("role", role.role));
  MOEC_TRY(read_not_negative(fields, "kl", role.kl));
  layer.roles.push_back(std::move(role));
  return fields.finish();
}

Status read_tensor(JsonFields& fields, LayerSensitivity& layer) {
  TensorErrors tensor;
  MOEC_TRY(fields.text("role", tensor.role));
  MOEC_TRY(fields.positive("elements", tensor.elements));
  if (fields.has("expert")) MOEC_TRY(fields.whole("expert", tensor.expert));
  for (size_t b = 0; b < kMeasuredBits.size(); ++b)
    MOEC_TRY(read_not_negative(fields, kBitsNames[b], tensor.errors[b]));
  layer.tensors.push_back(std::move(tensor));
  return fields.finish();
}

Status read_layer_sensitivity(JsonFields& fields, Sensitivity& sensitivity) {
  LayerSensitivity layer;
  MOEC_TRY(fields.whole("layer", layer.layer));
  MOEC_TRY(fields.each("roles", [&](JsonFields& one) { return read_role(one, layer); }));
  MOEC_TRY(fields.each("tensors", [&](JsonFields& one) { return read_tensor(one, layer); }));
  sensitivity.layers.push_back(std::move(layer));
  return fields.finish();
}

Status read_all(JsonFields& fields, std::string_view text, Sensitivity& sensitivity) {
  int64_t version = 0;
  MOEC_TRY(fields.integer("version", version));
  if (version < 1 || version > kSensitivityVersion)
    return fields.bad("version", fmt::format("must be 1 to {}", kSensitivityVersion));
  if (version == kSensitivityVersion) MOEC_TRY(read_seal(fields, text));
  MOEC_TRY(fields.text("calibration", sensitivity.calibration));
  MOEC_TRY(fields.positive("tokens", sensitivity.tokens));
  if (fields.has("state")) MOEC_TRY(read_run_state(fields, "state", sensitivity.state.emplace()));
  MOEC_TRY(fields.each("layers",
                       [&](JsonFields& one) { return read_layer_sensitivity(one, sensitivity); }));
  return fields.finish();
}

// See expected_kl() for the assumptions about widths that were not measured. kMeasuredBits ascend,
// so the last width not above `bits` applies.
double error_at(const TensorErrors& tensor, int64_t bits) {
  double error = tensor.errors.front();
  for (size_t b = 0; b < kMeasuredBits.size() && kMeasuredBits[b] <= bits; ++b)
    error = tensor.errors[b];
  // Compared with 6 bits, 8 bits divide the step by 4 and the squared error by 16.
  return bits >= 8 ? error / 16 : error;
}

}  // namespace

double expected_kl(const LayerSensitivity& layer, const TensorErrors& tensor, int64_t bits) {
  double kl = 0, all = 0;
  for (const RoleSensitivity& role : layer.roles)
    if (role.role == tensor.role) kl = role.kl;
  for (const TensorErrors& other : layer.tensors)
    if (other.role == tensor.role) all += error_at(other, kNoiseBits);
  // Without calibration tokens, all errors of a role are 0.
  return all > 0 ? kl * error_at(tensor, bits) / all : 0;
}

std::string sensitivity_text(const Sensitivity& sensitivity) {
  auto layers = SensitivityJson::array();
  for (const LayerSensitivity& layer : sensitivity.layers) layers.push_back(layer_json(layer));
  SensitivityJson json = {{"version", kSensitivityVersion},
                          {"calibration", sensitivity.calibration},
                          {"tokens", sensitivity.tokens}};
  if (sensitivity.state) json["state"] = run_state_json(*sensitivity.state);
  json["layers"] = std::move(layers);
  return sealed_text(json_text(json, 1));
}

Result<std::optional<Sensitivity>> read_any_sensitivity(const std::string& folder) {
  const std::string path = folder + "/" + kSensitivityFile;
  if (!file_exists(path)) return std::optional<Sensitivity>();
  MOEC_ASSIGN(const std::string text, read_text_file(path, kSensitivityLimits.bytes));
  const JsonReport report(text, path, JsonCodes::all_as("calibrate.malformed", kMeasure));
  MOEC_ASSIGN(const JsonValue value, report.parse(kSensitivityLimits));
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
  Sensitivity sensitivity;
  MOEC_TRY(read_all(fields, text, sensitivity));
  return std::optional(std::move(sensitivity));
}

Result<bool> has_finished_sensitivity(const std::string& folder) {
  MOEC_ASSIGN(const auto sensitivity, read_any_sensitivity(folder));
  return sensitivity && !sensitivity->state;
}

Result<Sensitivity> read_sensitivity(const std::string& folder) {
  MOEC_ASSIGN(auto sensitivity, read_any_sensitivity(folder));
  if (!sensitivity || sensitivity->state)
    return fail("calibrate.no_sensitivity", "the calibration has no sensitivities of layers",
                kMeasure, {.file = folder});
  // A later calibration may have replaced the index.
  MOEC_ASSIGN(const std::string digest, digest_file(folder + "/" + kCalibrationIndex));
  if (digest == sensitivity->calibration) return std::move(*sensitivity);
  return fail("calibrate.damaged", "the sensitivities were measured with another calibration",
              kMeasure, {.file = folder + "/" + kSensitivityFile});
}

}  // namespace moec
