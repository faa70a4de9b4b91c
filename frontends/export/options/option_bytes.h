// Values of flags that are amounts of memory (ir/base/parse_number.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"

namespace moec {

// The bytes that the value of a flag gives. Error cli.bytes, which names the flag.
Result<int64_t> bytes_of_flag(std::string_view flag, const std::string& text);

// The same for a flag whose numbers are MiB if they have no unit.
Result<int64_t> bytes_of_mebibyte_flag(std::string_view flag, const std::string& text);

}  // namespace moec
