#include "ir/base/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>

namespace moec {

static std::string render_place(const Place& place) {
  std::string text = place.file;
  if (place.line) text += fmt::format(":{}", *place.line);
  if (place.column) text += fmt::format(":{}", *place.column);
  if (place.offset) text += fmt::format(" at byte {}", *place.offset);
  auto part = [&](std::string_view label, const std::string& value) {
    if (!value.empty()) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", label, value);
  };
  part("shard", place.shard);
  part("op", place.op);
  part("tensor", place.tensor);
  return text;
}

std::string render(const Diagnostic& diagnostic) {
  std::string place = render_place(diagnostic.place);
  std::string text =
      fmt::format("{}[{}]{}{}: {}", severity_name(diagnostic.severity), diagnostic.code,
                  place.empty() ? "" : " ", place, diagnostic.cause);
  if (!diagnostic.next_step.empty()) text += fmt::format("\n  next: {}", diagnostic.next_step);
  return text;
}

std::string render(const Diagnostics& diagnostics) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (!text.empty()) text += '\n';
    text += render(diagnostic);
  }
  return text;
}

bool has_error(const Diagnostics& diagnostics) {
  return std::any_of(diagnostics.begin(), diagnostics.end(),
                     [](const Diagnostic& d) { return d.severity == Severity::error; });
}

}  // namespace moec
