// What was written or found with an export as JSON (ir/base/report_json.h).
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

// A line each; empty for an export without forms of top-k and without a capacity.
std::string routing_report(const Session& session);

// The same as members of a report.
void add_routing(const Session& session, nlohmann::ordered_json& json);

struct MemoryItem {
  std::string what;
  uint64_t bytes = 0;
};

struct MemoryReport {
  std::vector<MemoryItem> items;
  uint64_t peak = 0;     // the most that the process had so far, as the system counts it
  uint64_t machine = 0;  // memory of the machine
};

MemoryReport memory_report(const Session& session);

// A line for each item and for the peak: MB of 10^6 bytes, and percent of the machine's memory.
std::string memory_table(const MemoryReport& report);

// The prompt, the tokens, the text (null if there is no tokenizer), what stopped it, and times.
// Errors: those of Tokenizer::decode().
Result<nlohmann::ordered_json> text_json(const Prompt& prompt, const GeneratedText& text,
                                         const Session& session, const Tokenizer* tokenizer,
                                         const Diagnostics& notes = {});

// An object with `spans`, and with the redacted text if `redacted`, which needs a prompt of text.
// Bytes that are not UTF-8 become U+FFFD.
nlohmann::ordered_json spans_json(const Prompt& prompt, const TaggedText& tagged, bool redacted,
                                  const Diagnostics& notes = {});

// The part of the text that the span covers.
std::string text_of_span(const std::string& text, const TextSpan& span);

// The spans; those of a text are in bytes, and begin and end at boundaries of characters.
// `to_redact` requires a prompt of text, each byte of which was judged. Errors: those of
// tag_text(); run.no_text, run.not_judged, run.no_offsets (the tokens are not the bytes of the
// text).
Result<TaggedText> label_text(Session& session, const Prompt& prompt, bool to_redact);

}  // namespace moec
