// Pre-tokenizers of tokenizer.json: split a normalized text into words.
#pragma once

#include <functional>

#include "backends/tokenizer/component.h"
#include "backends/tokenizer/pieces.h"

namespace moec {

// Splits or rewrites the pieces. Error: tokenizer.pattern_limit.
using PreTokenizer = std::function<Status(Pieces& pieces)>;

// Reads BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, Metaspace, Punctuation, Sequence,
// Split, Whitespace and WhitespaceSplit. Returns an empty function for null. Errors:
// tokenizer.component, tokenizer.pattern, tokenizer.malformed.
Result<PreTokenizer> read_pre_tokenizer(const JsonReport& report, const JsonValue& value);

}  // namespace moec
