// Writes the chat templates of a checkpoint as keys of a GGUF file.
#pragma once

#include <string>
#include <vector>

#include "backends/formats/gguf/gguf_entry.h"
#include "ir/base/diagnostics.h"
#include "ir/base/json.h"

namespace moec {

// Returns the keys "tokenizer.chat_template" and, for further templates,
// "tokenizer.chat_template.NAME" and the list of their names, "tokenizer.chat_templates"; empty if
// the checkpoint has no template. Sources in order of precedence, as in transformers:
// chat_template.jinja with the folder additional_chat_templates; "chat_template" of
// tokenizer_config.json, a string or a list of {"name", "template"}; chat_template.json of
// processors. Errors: those of reading a file; json.*; gguf.chat_template for a malformed value, an
// unreadable folder, or two names with the same key.
Result<std::vector<GgufEntry>> chat_template_keys(const std::string& folder,
                                                  const JsonValue& tokenizer_config);

}  // namespace moec
