// What `moec run` prints for a model that labels tokens.
#pragma once

#include "backends/runtime/text/prompt.h"
#include "backends/runtime/text/tag_text.h"

namespace moec {

// One line for each span: where it begins and ends, its score, its label, and its text if the
// prompt was text.
void print_spans(const Prompt& prompt, const TaggedText& tagged);

}  // namespace moec
