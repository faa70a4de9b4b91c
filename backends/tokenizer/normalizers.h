// Normalizers of tokenizer.json: what a text becomes before it is cut into pieces.
#pragma once

#include <functional>
#include <string>

#include "backends/tokenizer/component.h"
#include "backends/tokenizer/pattern.h"

namespace moec {

// Changes a text of valid UTF-8. Error tokenizer.pattern_limit.
using Normalizer = std::function<Status(std::string& text)>;

// Reads BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Prepend, Replace, Sequence,
// Strip and StripAccents. Empty for null. Errors: tokenizer.component, tokenizer.pattern,
// tokenizer.malformed.
Result<Normalizer> read_normalizer(const JsonReport& report, const JsonValue& value);

// Reads the fields of a Replace, which is a decoder, too; its type has been read. Errors:
// tokenizer.pattern, tokenizer.malformed.
Result<Normalizer> read_replace_normalizer(JsonFields& fields);

// Reads {"String": text} or {"Regex": pattern}. Errors: tokenizer.pattern, tokenizer.malformed.
Result<Pattern> read_pattern(JsonFields& owner, std::string_view name);

}  // namespace moec
