#include "frontends/run/run_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backends/runtime/tokenizer.h"
#include "frontends/report/report_json.h"
#include "frontends/run/memory_report.h"
#include "frontends/run/write_text.h"

namespace moec {

using nlohmann::ordered_json;

namespace {

ordered_json experts_json(const Session& session) {
  const ExpertStore& experts = *session.experts();
  const ExpertStoreCounts counts = experts.counts();
  const auto tokens = static_cast<double>(std::max<int64_t>(session.tokens_run(), 1));
  return {{"capacity", experts.capacity()},
          {"slots_bytes", experts.used_bytes()},
          {"hits", counts.hits},
          {"misses", counts.misses},
          {"hit_rate", counts.hit_rate()},
          {"bytes_read", counts.bytes_read},
          {"bytes_read_per_token", static_cast<double>(counts.bytes_read) / tokens},
          {"foreseen", counts.foreseen},
          {"foreseen_in_vain", counts.in_vain},
          {"wait_seconds", counts.wait_seconds},
          {"skipped", counts.skipped},
          {"dropped_weight", counts.dropped_share()}};
}

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
                       {"skipped_steps", session.skipped_steps()}};
  if (session.experts()) json["experts"] = experts_json(session);
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
