// Decoders of tokenizer.json: convert token strings back to text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/tokenizer/component.h"

namespace moec {

// Transforms the token strings in place; the caller concatenates the result.
using Decoder = std::function<Status(std::vector<std::string>& tokens)>;

// Reads BPEDecoder, ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Sequence, Strip and
// WordPiece. Null joins tokens with spaces. Errors: tokenizer.component, tokenizer.pattern,
// tokenizer.malformed.
Result<Decoder> read_decoder(const JsonReport& report, const JsonValue& value);

}  // namespace moec
