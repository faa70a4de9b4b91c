#include "ir/target/device_profile_json.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "ir/base/at.h"
#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

constexpr std::string_view kProfileNextStep = "measure the machine with moec doctor --out PROFILE";

Status read_positive(JsonFields& fields, std::string_view name, double& out) {
  MOEC_TRY(fields.number(name, out));
  if (std::isfinite(out) && out > 0) return {};
  return fields.bad(name, fmt::format("is {}, must be a number above 0", out));
}

Status read_times(JsonFields& fields, std::string_view name, ProductTimes& out) {
  std::vector<ProductPoint> points;
  MOEC_TRY(fields.each(name, [&](JsonFields& item) -> Status {
    ProductPoint point;
    MOEC_TRY(item.positive("weights", point.weights));
    MOEC_TRY(item.positive("tokens", point.tokens));
    MOEC_TRY(read_positive(item, "seconds", point.seconds));
    points.push_back(point);
    return item.finish();
  }));
  auto times = ProductTimes::of(std::move(points));
  if (!times)
    return fields.bad(name, "must have one entry for each combination of weights and tokens");
  out = *std::move(times);
  return {};
}

Status read_form(JsonFields& fields, FormTimes& out) {
  std::string form;
  MOEC_TRY(fields.text("form", form));
  const auto parsed = parse_weight_form(form);
  if (!parsed || is_copy(*parsed) || is_block(*parsed))
    return fields.bad("form", fmt::format("has the unknown form \"{}\"", printable(form, 60)));
  out.form = *parsed;
  MOEC_TRY(fields.choice("dtype", out.dtype));
  if (!is_float(out.dtype)) return fields.bad("dtype", "must be f32, f16 or bf16");
  MOEC_TRY(read_times(fields, "times", out.times));
  return fields.finish();
}

Status read_ops(JsonFields& fields, DeviceProfile& out) {
  MOEC_ASSIGN(JsonFields elements, fields.object("element_seconds"));
  for (size_t i = 0; i < out.element_seconds.size(); ++i)
    MOEC_TRY(read_positive(elements, enum_name(static_cast<ElementWork>(i)),
                           at(out.element_seconds, i)));
  MOEC_TRY(elements.finish());
  MOEC_TRY(read_positive(fields, "op_seconds", out.op_seconds));
  MOEC_TRY(read_positive(fields, "idle_op_seconds", out.idle_op_seconds));
  return read_positive(fields, "run_seconds", out.run_seconds);
}

Status read_disk(JsonFields& fields, DeviceProfile& out) {
  MOEC_TRY(read_positive(fields, "sequential_rate", out.sequential_rate));
  MOEC_TRY(fields.each("random_reads", [&](JsonFields& item) -> Status {
    RandomReads read;
    MOEC_TRY(item.positive("bytes", read.bytes));
    MOEC_TRY(read_positive(item, "rate", read.rate));
    if (!out.reads.empty() && read.bytes <= out.reads.back().bytes)
      return item.bad("bytes", "must be larger than in the entry before");
    out.reads.push_back(read);
    return item.finish();
  }));
  if (!out.reads.empty()) return {};
  return fields.bad("random_reads", "must not be empty");
}

// Accepts the fields of every report, which moec doctor --json adds to the profile: a user may
// redirect that output to a file instead of passing --out. Their values are not checked, because
// the report of a failure lacks the fields of a profile.
Status skip_report_fields(JsonFields& fields) {
  for (const std::string_view name : {"ok", "diagnostics"})
    if (fields.has(name)) MOEC_TRY(fields.value(name));
  return {};
}

Result<DeviceProfile> read_profile(JsonFields fields) {
  DeviceProfile profile;
  MOEC_TRY(fields.form(kDeviceProfileFormat, kDeviceProfileVersion));
  MOEC_TRY(fields.text("engine", profile.engine));
  MOEC_TRY(fields.text("vectors", profile.vectors));
  MOEC_TRY(fields.positive("threads", profile.threads));
  MOEC_TRY(fields.positive("memory_bytes", profile.memory_bytes));
  MOEC_TRY(read_positive(fields, "memory_rate", profile.memory_rate));
  MOEC_TRY(fields.each(
      "forms", [&](JsonFields& item) { return read_form(item, profile.forms.emplace_back()); }));
  if (profile.forms.empty()) return fields.bad("forms", "must not be empty");
  MOEC_TRY(read_times(fields, "activations", profile.activations));
  MOEC_TRY(read_ops(fields, profile));
  MOEC_TRY(read_disk(fields, profile));
  MOEC_TRY(skip_report_fields(fields));
  MOEC_TRY(fields.finish());
  return profile;
}

}  // namespace

Result<DeviceProfile> parse_device_profile(std::string_view text, const std::string& file) {
  const JsonReport report(text, file,
                          JsonCodes::by_prefix("device_profile", std::string(kProfileNextStep)));
  MOEC_ASSIGN(const JsonValue root, report.parse());
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, root));
  return read_profile(std::move(fields));
}

Result<DeviceProfile> read_device_profile(const std::string& path) {
  MOEC_ASSIGN(const std::string text, read_user_text(path, "device_profile.file"));
  return parse_device_profile(text, path);
}

namespace {

using nlohmann::ordered_json;

ordered_json times_json(const ProductTimes& times) {
  auto list = ordered_json::array();
  for (const ProductPoint& point : times.points())
    list.push_back(
        {{"weights", point.weights}, {"tokens", point.tokens}, {"seconds", point.seconds}});
  return list;
}

ordered_json forms_json(const DeviceProfile& profile) {
  auto list = ordered_json::array();
  for (const FormTimes& form : profile.forms)
    list.push_back({{"form", to_string(form.form)},
                    {"dtype", dtype_name(form.dtype)},
                    {"times", times_json(form.times)}});
  return list;
}

ordered_json elements_json(const DeviceProfile& profile) {
  ordered_json elements;
  for (size_t kind = 0; kind < profile.element_seconds.size(); ++kind)
    elements[std::string(enum_name(static_cast<ElementWork>(kind)))] =
        at(profile.element_seconds, kind);
  return elements;
}

ordered_json reads_json(const DeviceProfile& profile) {
  auto list = ordered_json::array();
  for (const RandomReads& read : profile.reads)
    list.push_back({{"bytes", read.bytes}, {"rate", read.rate}});
  return list;
}

}  // namespace

ordered_json device_profile_json(const DeviceProfile& profile) {
  return {{"format", kDeviceProfileFormat},
          {"version", kDeviceProfileVersion},
          {"engine", profile.engine},
          {"vectors", profile.vectors},
          {"threads", profile.threads},
          {"memory_bytes", profile.memory_bytes},
          {"memory_rate", profile.memory_rate},
          {"forms", forms_json(profile)},
          {"activations", times_json(profile.activations)},
          {"element_seconds", elements_json(profile)},
          {"op_seconds", profile.op_seconds},
          {"idle_op_seconds", profile.idle_op_seconds},
          {"run_seconds", profile.run_seconds},
          {"sequential_rate", profile.sequential_rate},
          {"random_reads", reads_json(profile)}};
}

std::string device_profile_text(const DeviceProfile& profile) {
  return json_text(device_profile_json(profile)) + "\n";
}

}  // namespace moec
