#include "frontends/cli/print/findings.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "frontends/cli/print/say.h"
#include "ir/base/json_output.h"

namespace moec {

nlohmann::ordered_json to_json(const Diagnostic& d) {
  nlohmann::ordered_json place = nlohmann::ordered_json::object();
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

nlohmann::ordered_json to_json(const Diagnostics& diagnostics) {
  auto list = nlohmann::ordered_json::array();
  for (const Diagnostic& diagnostic : diagnostics) list.push_back(to_json(diagnostic));
  return list;
}

Diagnostics first_of_each_code(const Diagnostics& diagnostics, const ShownOfCode& most) {
  std::map<std::string_view, size_t> left;  // of each code
  for (const Diagnostic& diagnostic : diagnostics) ++left[diagnostic.code];
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
                       fmt::format("and {} more of this kind", more),
                       {},
                       {}});
  }
  return shown;
}

Diagnostics first_of_each_code(const Diagnostics& diagnostics, size_t most) {
  return first_of_each_code(diagnostics, [most](std::string_view) { return most; });
}

void print_json_in_full(bool ok, const nlohmann::ordered_json& report,
                        const Diagnostics& diagnostics) {
  nlohmann::ordered_json whole = {{"ok", ok}};
  whole.update(report);
  whole["diagnostics"] = to_json(diagnostics);
  print_out("{}\n", json_text(whole));
}

void print_json(bool ok, const nlohmann::ordered_json& report, const Diagnostics& diagnostics) {
  print_json_in_full(ok, report, first_of_each_code(diagnostics, kShownInJson));
}

int report_failure(const Diagnostics& diagnostics, bool json) {
  if (json) {
    print_json(false, nlohmann::ordered_json::object(), diagnostics);
  } else {
    say("{}\n", render(first_of_each_code(diagnostics, kShownErrors)));
  }
  return kExitBadInput;
}

void print_notes(const Diagnostics& notes) {
  if (!notes.empty()) say("{}\n", render(first_of_each_code(notes, kShownNotes)));
}

}  // namespace moec
