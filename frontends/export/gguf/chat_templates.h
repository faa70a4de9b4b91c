// The chat templates of a checkpoint as keys of a GGUF file.
#pragma once

#include <string>
#include <vector>

#include "backends/formats/gguf/gguf_entry.h"
#include "ir/base/diagnostics.h"
#include "ir/base/json.h"

namespace moec {

// "tokenizer.chat_template", and of further templates "tokenizer.chat_template.NAME" with the list
// of their names "tokenizer.chat_templates". As in transformers, chat_template.jinja and the folder
// additional_chat_templates come before "chat_template" of tokenizer_config.json, a text or a list
// of {"name", "template"}; chat_template.json of processors comes last. Empty if there is none.
// Errors: those of reading a file; json.*; gguf.chat_template, for a value of another form, for an
// unreadable folder, and for two names that give one key.
Result<std::vector<GgufEntry>> chat_template_keys(const std::string& folder,
                                                  const JsonValue& tokenizer_config);

}  // namespace moec
