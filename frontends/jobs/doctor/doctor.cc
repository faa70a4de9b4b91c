#include "frontends/jobs/doctor/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ir/base/at.h"
#include "ir/base/byte_text.h"
#include "ir/base/report_json.h"

namespace moec {
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

std::string rate_text(double bytes_per_second) {
  return decimal_bytes(static_cast<int64_t>(bytes_per_second)) + "/s";
}

// Speeds of the largest measured weight, with one token and with the most tokens.
std::string form_row(const FormTimes& form) {
  const ProductPoint& last = form.times.points().back();
  const auto weights = static_cast<double>(last.weights), tokens = static_cast<double>(last.tokens);
  return fmt::format("{:<14} {:<5} {:>12.2f} {:>12.2f}\n", to_string(form.form),
                     dtype_name(form.dtype), weights / form.times.seconds(weights, 1) / 1e9,
                     weights * tokens / form.times.seconds(weights, tokens) / 1e9);
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

std::string device_profile_table(const DeviceProfile& profile) {
  std::string text = fmt::format("{} with {} thread{} ({}), {} of memory\n\n", profile.engine,
                                 profile.threads, profile.threads == 1 ? "" : "s", profile.vectors,
                                 decimal_bytes(profile.memory_bytes));
  const int64_t most = profile.forms.front().times.points().back().tokens;
  text += fmt::format("{:<14} {:<5} {:>12} {:>12}  (10^9 multiplies/s)\n", "weights", "as",
                      "1 token", fmt::format("{} tokens", most));
  for (const FormTimes& form : profile.forms) text += form_row(form);
  text += fmt::format("\nmemory: {}\ndisk: {} in order", rate_text(profile.memory_rate),
                      rate_text(profile.sequential_rate));
  for (const RandomReads& read : profile.reads)
    text += fmt::format(", {} in reads of {}", rate_text(read.rate), decimal_bytes(read.bytes));
  return text + fmt::format("\nops: {:.2f} us each, {:.2f} us if skipped, {:.2f} us per graph\n",
                            1e6 * profile.op_seconds, 1e6 * profile.idle_op_seconds,
                            1e6 * profile.run_seconds);
}

}  // namespace moec
