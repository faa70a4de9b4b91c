// Text to token ids and back, for models whose tokens are bytes. Other tokenizers are not built in:
// `moec run` then takes and gives token ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

using manifest::TokenizerKind;

// Looks at `folder`/tokenizer.json: `bytes` when it is a byte-level BPE without merges whose token
// ids are the byte values, `none` when it is absent, above 64 MiB or anything else. Errors:
// tokenizer.malformed where it is not one JSON object, file.*.
Result<TokenizerKind> detect_tokenizer(const std::string& folder);

std::vector<int64_t> encode_bytes(std::string_view text);
// Ids outside [0, 256) become '?'.
std::string decode_bytes(const std::vector<int64_t>& tokens);

}  // namespace moec
