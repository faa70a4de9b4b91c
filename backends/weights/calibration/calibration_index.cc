#include "backends/weights/calibration/calibration_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "backends/files/digest.h"
#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

using Json = nlohmann::ordered_json;

// Version 2 lacks the digest of the index's own text; versions 2 and 3 have triangles of sums.
constexpr int64_t kVersion = 4, kOldestVersion = 2;
// Bounds the memory that a damaged or hostile file can request.
constexpr JsonLimits kIndexLimits{.bytes = 256 << 20, .values = 16 << 20};
// Keeps the byte counts of triangles, which grow with the square of the inputs, far below 2^63.
constexpr int64_t kMaxInputs = 1 << 20;

Json json_of(const CalibratedInput& input) {
  Json json = {{"name", input.name}, {"inputs", input.inputs}, {"tokens", input.tokens}};
  if (!input.pool.empty()) json["pool"] = input.pool;
  if (input.together > 0) json["together"] = input.together;
  if (!input.digest.empty()) json["digest"] = input.digest;
  Json matrices = Json::array();
  for (const CalibratedMatrix& matrix : input.matrices) {
    Json one = {{"role", matrix.role}};
    if (matrix.expert >= 0) one["expert"] = matrix.expert;
    matrices.push_back(std::move(one));
  }
  json["matrices"] = std::move(matrices);
  return json;
}

Json json_of(const CalibratedLayer& layer) {
  Json inputs = Json::array();
  for (const CalibratedInput& input : layer.inputs) inputs.push_back(json_of(input));
  return {{"layer", layer.layer}, {"file", layer.file}, {"inputs", std::move(inputs)}};
}

Status read_matrix(JsonFields& fields, CalibratedInput& input) {
  CalibratedMatrix matrix;
  MOEC_TRY(fields.text("role", matrix.role));
  if (fields.has("expert")) MOEC_TRY(fields.whole("expert", matrix.expert));
  input.matrices.push_back(std::move(matrix));
  return fields.finish();
}

Status read_input(JsonFields& fields, CalibratedLayer& layer) {
  CalibratedInput input;
  MOEC_TRY(fields.text("name", input.name));
  MOEC_TRY(fields.positive("inputs", input.inputs));
  if (input.inputs > kMaxInputs) return fields.bad("inputs", "must be at most 1048576");
  MOEC_TRY(fields.whole("tokens", input.tokens));
  if (fields.has("pool")) MOEC_TRY(fields.text("pool", input.pool));
  if (fields.has("together")) MOEC_TRY(fields.positive("together", input.together));
  // Inputs without tokens have no triangle, so there are no bytes with a digest.
  if (input.tokens > 0) MOEC_TRY(fields.text("digest", input.digest));
  MOEC_TRY(fields.each("matrices", [&](JsonFields& one) { return read_matrix(one, input); }));
  layer.inputs.push_back(std::move(input));
  return fields.finish();
}

Status read_layer(JsonFields& fields, CalibrationIndex& index) {
  CalibratedLayer layer;
  MOEC_TRY(fields.integer("layer", layer.layer));
  MOEC_TRY(fields.text("file", layer.file));
  // The file must lie in the folder of the index, even if someone edited the index.
  if (layer.file.find('/') != std::string::npos)
    return fields.bad("file", "must be a file name without a folder");
  MOEC_TRY(fields.each("inputs", [&](JsonFields& one) { return read_input(one, layer); }));
  index.layers.push_back(std::move(layer));
  return fields.finish();
}

Status read_index(JsonFields& fields, std::string_view text, CalibrationIndex& index) {
  int64_t version = 0;
  MOEC_TRY(fields.integer("version", version));
  if (version < kOldestVersion || version > kVersion)
    return fields.bad("version", fmt::format("must be {} to {}", kOldestVersion, kVersion));
  // Checked first, so that a damaged file is not reported as an error of one of the fields below.
  if (version > 2) MOEC_TRY(read_seal(fields, text));
  if (version < 4) index.triangles = TriangleForm::sums;
  MOEC_TRY(fields.text("checkpoint", index.checkpoint));
  MOEC_TRY(fields.text("text", index.text));
  MOEC_TRY(fields.positive("window", index.window));
  MOEC_TRY(fields.positive("tokens", index.tokens));
  MOEC_TRY(fields.boolean("finished", index.finished));
  MOEC_TRY(read_run_state(fields, "state", index.state));
  MOEC_TRY(fields.each("layers", [&](JsonFields& one) { return read_layer(one, index); }));
  // A program that knows only undivided calibrations refuses the field, because it would resume
  // after the number of layers.
  if (fields.has("inputs")) MOEC_TRY(fields.text("inputs", index.inputs));
  return fields.finish();
}

}  // namespace

std::string hessians_file(int64_t layer) {
  return layer < 0 ? "head.hessians" : fmt::format("L{:02}.hessians", layer);
}

bool has_layer(const CalibrationIndex& index, int64_t layer) {
  return std::any_of(index.layers.begin(), index.layers.end(),
                     [&](const CalibratedLayer& one) { return one.layer == layer; });
}

void add_layer(CalibrationIndex& index, CalibratedLayer layer) {
  // Unsigned, so that the head, -1, comes last.
  const auto place = [](const CalibratedLayer& one) { return static_cast<uint64_t>(one.layer); };
  const auto next =
      std::find_if(index.layers.begin(), index.layers.end(),
                   [&](const CalibratedLayer& one) { return place(one) > place(layer); });
  index.layers.insert(next, std::move(layer));
}

uint64_t triangle_bytes(const CalibratedInput& input, TriangleForm form) {
  if (input.together == 0) return row_offset(form, input.inputs, input.inputs);
  // The last block may be smaller. If `rest` is 0, row_offset() returns 0 bytes.
  const int64_t rest = input.inputs % input.together;
  return static_cast<uint64_t>(input.inputs / input.together) *
             row_offset(form, input.together, input.together) +
         row_offset(form, rest, rest);
}

std::string index_text(const CalibrationIndex& index) {
  Json layers = Json::array();
  for (const CalibratedLayer& layer : index.layers) layers.push_back(json_of(layer));
  const bool sums = index.triangles == TriangleForm::sums;
  // An index that was read from version 2 or 3 is written as version 3, because its triangles
  // remain sums.
  Json json = {{"version", sums ? kVersion - 1 : kVersion},
               {"checkpoint", index.checkpoint},
               {"text", index.text},
               {"window", index.window},
               {"tokens", index.tokens},
               {"finished", index.finished},
               {"state", run_state_json(index.state)},
               {"layers", std::move(layers)}};
  if (!index.inputs.empty()) json["inputs"] = index.inputs;
  return sealed_text(json_text(json, 1));
}

Result<CalibrationIndex> read_calibration_index(const std::string& folder) {
  const std::string path = folder + "/" + kCalibrationIndex;
  if (!file_exists(path))
    return fail("calibrate.no_statistics", fmt::format("the folder has no {}", kCalibrationIndex),
                "choose a folder that moec calibrate wrote", {.file = folder});
  MOEC_ASSIGN(const std::string text, read_text_file(path, kIndexLimits.bytes));
  const JsonReport report(
      text, path, JsonCodes::all_as("calibrate.malformed", "run moec calibrate into a new folder"));
  MOEC_ASSIGN(const JsonValue value, report.parse(kIndexLimits));
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
  CalibrationIndex index;
  MOEC_TRY(read_index(fields, text, index));
  return index;
}

}  // namespace moec
