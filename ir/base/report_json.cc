#include "ir/base/report_json.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace moec {

using nlohmann::ordered_json;

ordered_json to_json(const Diagnostic& d) {
  ordered_json place = ordered_json::object();
  auto part = [&](const char* key, const std::string& value) {
    if (!value.empty()) place[key] = value;
  };
  part("file", d.place.file);
  part("shard", d.place.shard);
  part("op", d.place.op);
  part("tensor", d.place.tensor);
  if (d.place.offset) place["offset"] = *d.place.offset;
  if (d.place.line) place["line"] = *d.place.line;
  if (d.place.column) place["column"] = *d.place.column;
  return {{"severity", severity_name(d.severity)},
          {"code", d.code},
          {"cause", d.cause},
          {"next_step", d.next_step},
          {"place", place}};
}

ordered_json to_json(const Diagnostics& diagnostics) {
  auto list = ordered_json::array();
  for (const Diagnostic& diagnostic : diagnostics) list.push_back(to_json(diagnostic));
  return list;
}

Diagnostics first_of_each_code(const Diagnostics& diagnostics, const ShownOfCode& most) {
  std::map<std::string_view, size_t> left;  // per code
  // The message "and {} more" needs the total number of findings per code.
  for (const Diagnostic& diagnostic : diagnostics) ++left[diagnostic.code];
  // The number of findings that may still be shown, per code.
  std::map<std::string_view, size_t> room;
  Diagnostics shown;
  for (const Diagnostic& diagnostic : diagnostics) {
    const auto [at, is_new] = room.try_emplace(diagnostic.code, 0);
    if (is_new) at->second = most(diagnostic.code);
    if (at->second == 0) continue;
    shown.push_back(diagnostic);
    const size_t more = --left[diagnostic.code];
    if (--at->second == 0 && more > 0)
      shown.push_back({diagnostic.severity,
                       diagnostic.code,
                       fmt::format("and {} more with this code", more),
                       {},
                       {}});
  }
  return shown;
}

Diagnostics first_of_each_code(const Diagnostics& diagnostics, size_t most) {
  return first_of_each_code(diagnostics, [most](std::string_view) { return most; });
}

ordered_json report_json_in_full(bool ok, const ordered_json& fields,
                                 const Diagnostics& diagnostics) {
  ordered_json whole = {{"ok", ok}};
  whole.update(fields);
  whole["diagnostics"] = to_json(diagnostics);
  return whole;
}

ordered_json report_json(bool ok, const ordered_json& fields, const Diagnostics& diagnostics) {
  return report_json_in_full(ok, fields, first_of_each_code(diagnostics, kShownInJson));
}

ordered_json failure_json(const Diagnostics& diagnostics) {
  return report_json(false, ordered_json::object(), diagnostics);
}

std::string failure_json_text(const Diagnostics& diagnostics) {
  return json_text(failure_json(diagnostics)) + "\n";
}

std::string json_text(const nlohmann::ordered_json& value, int indent) {
  // The default error handler of dump() throws on invalid UTF-8.
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

// Uses json_text(), so that strings are escaped as in whole reports.
std::string json_string(std::string_view text) {
  return json_text(nlohmann::ordered_json(std::string(text)), -1);
}

}  // namespace moec
