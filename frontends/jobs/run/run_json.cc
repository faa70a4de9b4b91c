#include "frontends/jobs/run/run_json.h"

#include <nlohmann/json.hpp>

#include "backends/runtime/text/tokenizer.h"
#include "backends/runtime/text/write_text.h"
#include "frontends/jobs/run/expert_report.h"
#include "frontends/jobs/run/memory_report.h"
#include "frontends/jobs/run/routing_report.h"
#include "ir/base/report_json.h"

namespace moec {

using nlohmann::ordered_json;

namespace {

ordered_json memory_json(const MemoryReport& report) {
  ordered_json json = {{"peak_bytes", report.peak}, {"machine_bytes", report.machine}};
  auto& parts = json["parts"] = ordered_json::array();
  for (const MemoryItem& item : report.items)
    parts.push_back({{"what", item.what}, {"bytes", item.bytes}});
  return json;
}

}  // namespace

ordered_json text_json(const Prompt& prompt, const GeneratedText& text, const Session& session,
                       const Diagnostics& notes) {
  ordered_json written;  // null where tokens are not bytes
  if (writes_bytes(session.manifest())) written = decode_bytes(text.tokens);
  ordered_json json = {{"prompt", prompt.tokens},
                       {"tokens", text.tokens},
                       {"text", written},
                       {"stopped_by", enum_name(text.stopped_by)},
                       {"prefill_seconds", text.prefill_seconds},
                       {"decode_seconds", text.decode_seconds},
                       {"decode_tokens_per_second", text.decode_tokens_per_second()},
                       {"skipped_steps", session.skipped_steps()},
                       {"engine", session.engine().name}};
  if (!session.engine().device.empty()) json["device"] = session.engine().device;
  if (session.experts()) json["experts"] = expert_json(session);
  add_routing(session, json);
  json["memory"] = memory_json(memory_report(session));
  if (text.stopping_token) json["stopping_token"] = *text.stopping_token;
  return report_json(true, json, notes);
}

std::string text_of_span(const std::string& text, const TextSpan& span) {
  return text.substr(static_cast<size_t>(span.begin), static_cast<size_t>(span.end - span.begin));
}

ordered_json spans_json(const Prompt& prompt, const TaggedText& tagged, bool redacted,
                        const Diagnostics& notes) {
  auto spans = ordered_json::array();
  for (const TextSpan& span : tagged.spans) {
    ordered_json json = {
        {"start", span.begin}, {"end", span.end}, {"label", span.label}, {"score", span.score}};
    if (prompt.text) json["text"] = text_of_span(*prompt.text, span);
    spans.push_back(std::move(json));
  }
  ordered_json json = {
      {"tokens", prompt.tokens.size()}, {"windows", tagged.windows}, {"spans", spans}};
  if (redacted) json["redacted"] = redact(*prompt.text, tagged.spans);
  return report_json(true, json, notes);
}

}  // namespace moec
