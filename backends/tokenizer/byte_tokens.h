// Models whose tokens are the bytes of their text.
#pragma once

#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

// Whether the folder's tokenizer.json is a byte-level BPE without merges whose token ids are the
// byte values. False if the file is missing or longer than such a one. Errors:
// tokenizer.malformed (not one JSON object), file.*.
Result<bool> tokens_are_bytes(const std::string& folder);

}  // namespace moec
