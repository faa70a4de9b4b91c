// Pre-tokenizers of tokenizer.json: how a normalized text is cut into words.
#pragma once

#include <functional>

#include "backends/tokenizer/component.h"
#include "backends/tokenizer/pieces.h"

namespace moec {

// Cuts or rewrites the pieces. Error tokenizer.pattern_limit.
using PreTokenizer = std::function<Status(Pieces& pieces)>;

// Reads BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, Metaspace, Punctuation, Sequence,
// Split, Whitespace and WhitespaceSplit. Empty for null. Errors: tokenizer.component,
// tokenizer.pattern, tokenizer.malformed.
Result<PreTokenizer> read_pre_tokenizer(const JsonReport& report, const JsonValue& value);

}  // namespace moec
