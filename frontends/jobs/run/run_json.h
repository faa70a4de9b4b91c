// What was written or found with an export as JSON (ir/base/report_json.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "backends/runtime/text/generate.h"
#include "backends/runtime/text/prompt.h"
#include "backends/runtime/text/tag_text.h"

namespace moec {

// The prompt, the tokens, the text (null where tokens are not bytes), what stopped it, and times.
nlohmann::ordered_json text_json(const Prompt& prompt, const GeneratedText& text,
                                 const Session& session, const Diagnostics& notes = {});

// An object with `spans`, and with the redacted text if `redacted`, which needs a prompt of text.
// Bytes that are not UTF-8 become U+FFFD.
nlohmann::ordered_json spans_json(const Prompt& prompt, const TaggedText& tagged, bool redacted,
                                  const Diagnostics& notes = {});

// The part of the text that the span covers.
std::string text_of_span(const std::string& text, const TextSpan& span);

}  // namespace moec
