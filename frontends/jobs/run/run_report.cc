#include "frontends/jobs/run/run_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "backends/runtime/text/write_text.h"
#include "frontends/jobs/run/expert_report.h"
#include "frontends/nodes/peer_report.h"
#include "ir/base/at.h"
#include "ir/base/process_memory.h"
#include "ir/base/report_json.h"

namespace moec {

using nlohmann::ordered_json;

std::string routing_report(const Session& session) {
  std::string text;
  if (const std::string top_k = describe_top_k(session.top_k(), session.top_k_counts());
      !top_k.empty())
    text += fmt::format("[{}]\n", top_k);
  if (const CapacityDrops* drops = session.drops())
    text +=
        fmt::format("[capacity {}: {}]\n", session.manifest().capacity->factor, drops->describe());
  if (const PeerCounts* peers = session.peer_counts()) text += peer_text(*peers);
  return text;
}

void add_routing(const Session& session, ordered_json& json) {
  const TopKChoice& choice = session.top_k();
  // An export without top-k variants has no choice to report.
  if (!choice.forms.empty()) {
    ordered_json& top_k = json["top_k"];
    // With a threshold, each token chooses a variant, so the counts replace a single name.
    if (!choice.threshold) top_k["form"] = choice.forms[choice.form].name;
    if (!choice.reason.empty()) top_k["chosen_by"] = choice.reason;
    if (choice.threshold) {
      auto counts = ordered_json::array();
      for (const auto& [k, count] : session.top_k_counts())
        counts.push_back({{"top_k", k}, {"choices", count}});
      top_k["threshold"] = *choice.threshold;
      top_k["counts"] = std::move(counts);
    }
  }
  if (const CapacityDrops* drops = session.drops())
    json["capacity"] = {{"factor", session.manifest().capacity->factor},
                        {"choices", drops->choices()},
                        {"dropped", drops->dropped()},
                        {"drop_rate", drops->rate()}};
  if (const PeerCounts* peers = session.peer_counts()) json["peers"] = peer_json(*peers);
}

namespace {

std::string line_of(const std::string& what, uint64_t bytes, uint64_t machine) {
  const auto size = static_cast<double>(bytes);
  // The system may not report its memory; then the share is 0.
  const double share = machine > 0 ? 100 * size / static_cast<double>(machine) : 0;
  return fmt::format("{:<44}{:>10.1f} MB{:>8.2f} %\n", what, size / 1e6, share);
}

}  // namespace

MemoryReport memory_report(const Session& session) {
  MemoryReport report;
  report.machine = machine_memory();
  report.peak = process_memory().peak;
  const LoadedShards& loaded = session.loaded();
  // The session of a run has only one sequence.
  const SessionParts parts =
      parts_beside_shards(session.manifest(), {.sequences = 1, .dtype = session.cache_dtype()});
  report.items = {
      // The mapped bytes are an item by themselves, so they are subtracted from kept_bytes().
      {"weights of loaded shards, in mapped files", loaded.kept_mapped()},
      {"graphs and small weights of loaded shards", loaded.kept_bytes() - loaded.kept_mapped()},
      {"values between ops, and transient shards", loaded.reserve()},
      {"caches", parts.caches},
      {"rows between shards, and logits", parts.rows}};
  // Slots are not part of the loaded shards.
  if (const auto experts = session.experts())
    report.items.push_back({fmt::format("slots of experts, {} per layer", experts->capacity()),
                            experts->used_bytes()});
  uint64_t known = 0;
  for (const MemoryItem& item : report.items) known += item.bytes;
  // The items need not reach their peaks together, so `known` may exceed the peak of the process.
  report.items.push_back({"the program, and buffers for reading graphs",
                          report.peak > known ? report.peak - known : 0});
  return report;
}

std::string memory_table(const MemoryReport& report) {
  std::string table;
  for (const MemoryItem& item : report.items)
    table += line_of(item.what, item.bytes, report.machine);
  return table + line_of("peak of the process", report.peak, report.machine);
}

namespace {

ordered_json memory_json(const MemoryReport& report) {
  ordered_json json = {{"peak_bytes", report.peak}, {"machine_bytes", report.machine}};
  auto& parts = json["parts"] = ordered_json::array();
  for (const MemoryItem& item : report.items)
    parts.push_back({{"what", item.what}, {"bytes", item.bytes}});
  return json;
}

// Adds the engine, the experts in slots, the routing and the memory.
void add_session(const Session& session, ordered_json& json) {
  json["engine"] = session.engine().name;
  if (!session.engine().device.empty()) json["device"] = session.engine().device;
  if (session.experts()) json["experts"] = expert_json(session);
  add_routing(session, json);
  json["memory"] = memory_json(memory_report(session));
}

// Adds note_widened(), which is complete only after a run.
Diagnostics notes_after_run(Diagnostics notes, const Session& session) {
  for (Diagnostic& note : note_widened(session)) notes.push_back(std::move(note));
  return notes;
}

}  // namespace

Result<ordered_json> text_json(const Prompt& prompt, const GeneratedText& text,
                               const Session& session, const Tokenizer* tokenizer,
                               const Diagnostics& notes) {
  // A null value marks the absence of a tokenizer; an empty text would be a text of no tokens.
  ordered_json written;
  if (tokenizer) {
    MOEC_ASSIGN(written, tokenizer->decode(text.tokens));
  }
  ordered_json json = {{"prompt", prompt.tokens},
                       {"tokens", text.tokens},
                       {"text", written},
                       {"stopped_by", enum_name(text.stopped_by)},
                       {"prefill_seconds", text.prefill_seconds},
                       {"decode_seconds", text.decode_seconds},
                       {"decode_tokens_per_second", text.decode_tokens_per_second()},
                       {"skipped_steps", session.skipped_steps()}};
  add_session(session, json);
  if (text.stopping_token) json["stopping_token"] = *text.stopping_token;
  return report_json(true, json, notes_after_run(notes, session));
}

std::string text_of_span(const std::string& text, const TextSpan& span) {
  return text.substr(static_cast<size_t>(span.begin), static_cast<size_t>(span.end - span.begin));
}

ordered_json spans_json(const Prompt& prompt, const TaggedText& tagged, bool redacted,
                        const Session& session, const Diagnostics& notes) {
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
  add_session(session, json);
  return report_json(true, json, notes_after_run(notes, session));
}

// Converts the spans and the token count of `tagged` from tokens to bytes.
static void count_bytes(const std::vector<int64_t>& byte_counts, TaggedText& tagged) {
  // A prefix sum, so that each span is converted in constant time.
  std::vector<int64_t> ends = {0};  // ends[n]: bytes of the first n tokens
  for (const int64_t count : byte_counts) ends.push_back(ends.back() + count);
  const auto bytes_of = [&](int64_t tokens) { return at(ends, tokens); };
  for (TextSpan& span : tagged.spans) {
    span.begin = bytes_of(span.begin);
    span.end = bytes_of(span.end);
  }
  tagged.tokens = bytes_of(tagged.tokens);
}

Result<TaggedText> label_text(Session& session, const Prompt& prompt, bool to_redact) {
  if (to_redact && !prompt.text)
    // Token ids have no text in which spans could be removed.
    return fail("run.no_text",
                "--redact requires a text prompt, but the prompt consists of token ids",
                "pass --prompt TEXT or --prompt-file FILE, or leave out --redact");
  if (prompt.text && !prompt.byte_counts)
    // A tokenizer that normalises the text has no exact byte counts.
    return fail("run.no_offsets", "the tokenizer changes the text, so spans cannot be mapped to it",
                "label the text with scripts/label_text.py, or pass token ids");
  MOEC_ASSIGN(TaggedText tagged, tag_text(session, prompt.tokens));
  if (prompt.byte_counts) count_bytes(*prompt.byte_counts, tagged);
  if (to_redact) MOEC_TRY(check_judged(*prompt.text, tagged));
  // A token may end inside a character; a cut there would leave invalid UTF-8.
  if (prompt.text) widen_to_characters(*prompt.text, tagged.spans);
  return tagged;
}

}  // namespace moec
