#include "frontends/cli/print/print_spans.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/say.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

std::string text_of(const std::string& text, const TextSpan& span) {
  return text.substr(static_cast<size_t>(span.begin), static_cast<size_t>(span.end - span.begin));
}

}  // namespace

void print_spans(const Prompt& prompt, const TaggedText& tagged) {
  for (const TextSpan& span : tagged.spans)
    print_out("{:>6} {:>6}  {:.3f}  {}{}\n", span.begin, span.end, span.score, span.label,
              prompt.text ? "  " + text_of(*prompt.text, span) : "");
}

void print_spans_json(const Prompt& prompt, const TaggedText& tagged, bool redacted) {
  auto spans = ordered_json::array();
  for (const TextSpan& span : tagged.spans) {
    ordered_json json = {
        {"start", span.begin}, {"end", span.end}, {"label", span.label}, {"score", span.score}};
    if (prompt.text) json["text"] = text_of(*prompt.text, span);
    spans.push_back(std::move(json));
  }
  ordered_json json = {
      {"tokens", prompt.tokens.size()}, {"windows", tagged.windows}, {"spans", spans}};
  if (redacted) json["redacted"] = redact(*prompt.text, tagged.spans);
  print_json(true, json);
}

}  // namespace moec
