#include "ir/base/byte_text.h"

#include <fmt/format.h>

#include <array>

namespace moec {

// One digit after the decimal point, none for bytes.
std::string decimal_text(double bytes) {
  constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  // The last unit, TB, also applies to larger sizes.
  while (bytes >= 1000 && unit + 1 < kUnits.size()) {
    bytes /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

}  // namespace moec
