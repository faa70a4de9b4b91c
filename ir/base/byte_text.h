// Formats byte counts for messages and reports.
#pragma once

#include <concepts>
#include <string>

namespace moec {

// Formats bytes as "1.5 MB" or "29.0 GB". All printed sizes and rates use powers of 1000. Options
// also accept binary units; messages about those options write them out: "256 MiB".
std::string decimal_text(double bytes);

template <class Number>
requires std::integral<Number> || std::floating_point<Number> std::string decimal_bytes(
    Number bytes) {
  return decimal_text(static_cast<double>(bytes));
}

}  // namespace moec
