// Finds the labelled spans of a prompt with an exported model that labels tokens.
#pragma once

#include "backends/runtime/text/prompt.h"
#include "backends/runtime/text/tag_text.h"

namespace moec {

// The spans; those of a text begin and end at boundaries of characters. `to_redact` requires a
// prompt of text, each byte of which was judged. Errors: those of tag_text(); run.no_text,
// run.not_judged.
Result<TaggedText> label_text(Session& session, const Prompt& prompt, bool to_redact);

}  // namespace moec
