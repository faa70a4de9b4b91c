// Detects models whose tokens are bytes.
#pragma once

#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

// Returns true if the folder's tokenizer.json is a byte-level BPE without merges whose token ids
// are the byte values; false if the file is missing or above 64 KiB, the size limit of such files.
// Errors: tokenizer.malformed (not one JSON object), file.*.
Result<bool> tokens_are_bytes(const std::string& folder);

}  // namespace moec
