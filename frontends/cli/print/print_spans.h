// What `moec run` prints of a tagged text.
#pragma once

#include "backends/runtime/prompt.h"
#include "backends/runtime/tag_text.h"

namespace moec {

// A line for each span: where it begins and ends, its label, its score, its text where there is
// one.
void print_spans(const Prompt& prompt, const TaggedText& tagged);

// An object with `spans`, and with `redacted` where that is asked for, which needs a text. Bytes
// that are not UTF-8 become U+FFFD.
void print_spans_json(const Prompt& prompt, const TaggedText& tagged, bool redacted);

}  // namespace moec
