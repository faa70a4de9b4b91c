// How a byte-level tokenizer cuts text before its merges: files of GGUF state a name for it, the
// files of checkpoints the regular expressions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ir/base/json.h"

namespace moec {

// The name of the pre_tokenizer of a tokenizer.json, of those that share its expressions that of
// the family. Nothing where it is not known: files of GGUF cannot state expressions. `has_merges`:
// without merges each byte is a token, however text is cut.
std::optional<std::string_view> pre_tokenizer_name(const JsonValue& pre_tokenizer,
                                                   std::string_view family, bool has_merges);

}  // namespace moec
