// Numbers of bytes in messages and reports.
#pragma once

#include <cstdint>
#include <string>

namespace moec {

// "1.5 MB", "29.0 GB": in powers of 1000, as budgets and published sizes are given.
std::string decimal_bytes(int64_t bytes);

// "1.5 MiB": in powers of 1024, as memory and files are counted.
std::string binary_bytes(double bytes);

}  // namespace moec
