// Parses flag values that are amounts of memory (ir/base/parse_number.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"

namespace moec {

// Returns the bytes in the value `text` of `flag`. Error cli.bytes, which names the flag.
Result<int64_t> bytes_of_flag(std::string_view flag, const std::string& text);

// Like bytes_of_flag(), for a flag whose numbers without a unit are MiB.
Result<int64_t> bytes_of_mebibyte_flag(std::string_view flag, const std::string& text);

}  // namespace moec
