// Amounts of memory in words of the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"

namespace moec {

// "17179869184", "16GiB", "25.8 GB": a finite number above 0, with a unit of 1000 (kB, MB, GB, TB)
// or 1024 (KiB, MiB, GiB, TiB) or none.
std::optional<int64_t> parse_bytes(std::string_view text);

// The number of bytes that `flag` gives. Error cli.bytes.
Result<int64_t> bytes_of_flag(std::string_view flag, const std::string& text);

// The same for a flag whose numbers without a unit are MiB.
Result<int64_t> bytes_of_mebibyte_flag(std::string_view flag, const std::string& text);

}  // namespace moec
