// Converts text to token ids and back for models whose tokens are bytes. There are no other
// tokenizers: for other models `moec run` takes and prints token ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

using manifest::TokenizerKind;

// Reads `folder`/tokenizer.json. The result is `bytes` if it is a byte-level BPE without merges
// whose token ids are the byte values, and `none` if the file is missing, above 64 MiB or describes
// anything else. Errors: tokenizer.malformed where it is not one JSON object, file.*.
Result<TokenizerKind> detect_tokenizer(const std::string& folder);

std::vector<int64_t> encode_bytes(std::string_view text);
// The text of the tokens; ids outside [0, 256) become '?'.
std::string decode_bytes(const std::vector<int64_t>& tokens);

}  // namespace moec
