// What `moec run` prints for a model that labels tokens.
#pragma once

#include "backends/runtime/prompt.h"
#include "backends/runtime/tag_text.h"

namespace moec {

// One line for each span: where it begins and ends, its score, its label, and its text if the
// prompt was text.
void print_spans(const Prompt& prompt, const TaggedText& tagged);

// An object with `spans`, and with the redacted text if `redacted`, which needs a prompt of text.
// Bytes that are not UTF-8 become U+FFFD.
void print_spans_json(const Prompt& prompt, const TaggedText& tagged, bool redacted);

}  // namespace moec
