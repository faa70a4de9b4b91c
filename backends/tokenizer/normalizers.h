// Normalizers of tokenizer.json: rewrite a text before pre-tokenization.
#pragma once

#include <functional>
#include <string>

#include "backends/tokenizer/component.h"
#include "backends/tokenizer/pattern.h"

namespace moec {

// Rewrites a text of valid UTF-8 in place. Error: tokenizer.pattern_limit.
using Normalizer = std::function<Status(std::string& text)>;

// Reads BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Prepend, Replace, Sequence,
// Strip and StripAccents. Returns an empty function for null. Errors: tokenizer.component,
// tokenizer.pattern, tokenizer.malformed.
Result<Normalizer> read_normalizer(const JsonReport& report, const JsonValue& value);

// Reads the fields of a Replace component after its type; decoders share it. Errors:
// tokenizer.pattern, tokenizer.malformed.
Result<Normalizer> read_replace_normalizer(JsonFields& fields);

// Reads {"String": text} or {"Regex": pattern}. Errors: tokenizer.pattern, tokenizer.malformed.
Result<Pattern> read_pattern(JsonFields& owner, std::string_view name);

}  // namespace moec
