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

int report_failure(const Diagnostics& diagnostics, bool json) {
  if (json) {
    nlohmann::ordered_json report = {{"ok", false}, {"diagnostics", to_json(diagnostics)}};
    fmt::print("{}\n", json_text(report));
  } else {
    say("{}\n", render(diagnostics));
  }
  return kExitBadInput;
}

void print_notes(const Diagnostics& notes) {
  constexpr size_t kShown = 3;
  std::map<std::string, size_t> seen;
  for (const Diagnostic& note : notes)
    if (++seen[note.code] <= kShown) say("{}\n", render(note));
  for (const auto& [code, count] : seen)
    if (count > kShown) say("… and {} more [{}]\n", count - kShown, code);
}

}  // namespace moec
