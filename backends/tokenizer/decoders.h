// Decoders of tokenizer.json: how tokens become text again.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/tokenizer/component.h"

namespace moec {

// Changes the texts of tokens; those that it leaves are joined.
using Decoder = std::function<Status(std::vector<std::string>& tokens)>;

// Reads BPEDecoder, ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Sequence, Strip and
// WordPiece. For null, spaces stand between tokens. Errors: tokenizer.component, tokenizer.pattern,
// tokenizer.malformed.
Result<Decoder> read_decoder(const JsonReport& report, const JsonValue& value);

}  // namespace moec
