// Amounts of memory as the command line gives them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"

namespace moec {

// Bytes of "17179869184", "16GiB" or "25.8 GB": a finite number above 0 with a decimal unit (kB,
// MB, GB, TB), a binary unit (KiB, MiB, GiB, TiB) or none. Nothing if the text has another form, or
// if the amount is below 1 byte or above 10^18 bytes.
std::optional<int64_t> parse_bytes(std::string_view text);

// The same for the value of a flag, which the error cli.bytes names.
Result<int64_t> bytes_of_flag(std::string_view flag, const std::string& text);

// The same for a flag whose numbers are MiB if they have no unit.
Result<int64_t> bytes_of_mebibyte_flag(std::string_view flag, const std::string& text);

}  // namespace moec
