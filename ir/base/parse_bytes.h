// Amounts of memory as people write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace moec {

// Bytes of "17179869184", "16GiB" or "25.8 GB": a finite number above 0 with a decimal unit (kB,
// MB, GB, TB), a binary unit (KiB, MiB, GiB, TiB) or none. Nothing if the text has another form, or
// if the amount is below 1 byte or above 10^18 bytes.
std::optional<int64_t> parse_bytes(std::string_view text);

}  // namespace moec
