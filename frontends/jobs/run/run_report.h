// Reports of runs as JSON (ir/base/report_json.h).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "backends/runtime/session/session.h"
#include "backends/runtime/text/generate.h"
#include "backends/runtime/text/prompt.h"
#include "backends/runtime/text/tag_text.h"

namespace moec {

// Returns lines about top-k, capacity and peers; empty if the session has none of them.
std::string routing_report(const Session& session);

// Adds the data of routing_report() to a report.
void add_routing(const Session& session, nlohmann::ordered_json& json);

struct MemoryItem {
  std::string what;
  uint64_t bytes = 0;
};

struct MemoryReport {
  std::vector<MemoryItem> items;
  uint64_t peak = 0;     // peak resident memory of the process, reported by the system
  uint64_t machine = 0;  // memory of the machine
};

MemoryReport memory_report(const Session& session);

// Returns one line per item and one for the peak, in MB of 10^6 bytes and in percent of the
// machine's memory.
std::string memory_table(const MemoryReport& report);

// The prompt, tokens, text (null without a tokenizer), stop reason, times, and the engine, experts,
// routing and memory of the session. Errors: those of Tokenizer::decode().
Result<nlohmann::ordered_json> text_json(const Prompt& prompt, const GeneratedText& text,
                                         const Session& session, const Tokenizer* tokenizer,
                                         const Diagnostics& notes = {});

// Returns an object with `spans`, the redacted text if `redacted` is true, and the same data of the
// session as text_json(). Redaction requires a text prompt. Bytes that are not UTF-8 become U+FFFD.
nlohmann::ordered_json spans_json(const Prompt& prompt, const TaggedText& tagged, bool redacted,
                                  const Session& session, const Diagnostics& notes = {});

// The text of the span.
std::string text_of_span(const std::string& text, const TextSpan& span);

// Labels the prompt. Spans of a text are in bytes, at character boundaries. `to_redact` requires a
// text prompt in which every byte has a label. Errors: those of tag_text(); run.no_text,
// run.not_judged, run.no_offsets (tokens cannot be mapped to bytes of the text).
Result<TaggedText> label_text(Session& session, const Prompt& prompt, bool to_redact);

}  // namespace moec
