// Formats numbers of bytes for messages and reports.
#pragma once

#include <cstdint>
#include <string>

namespace moec {

// "1.5 MB", "29.0 GB": decimal units (powers of 1000), the units of budgets and published sizes.
std::string decimal_bytes(int64_t bytes);

// "1.5 MiB": binary units (powers of 1024), for memory and files on disk.
std::string binary_bytes(double bytes);

}  // namespace moec
