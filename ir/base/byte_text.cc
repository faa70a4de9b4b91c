#include "ir/base/byte_text.h"

#include <fmt/format.h>

#include <array>

namespace moec {
namespace {

using Units = std::array<const char*, 5>;

// Writes one digit after the point, none for whole bytes.
std::string byte_text(double bytes, double step, const Units& units) {
  size_t unit = 0;
  while (bytes >= step && unit + 1 < units.size()) {
    bytes /= step;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, units[unit]);
}

}  // namespace

std::string decimal_bytes(int64_t bytes) {
  return byte_text(static_cast<double>(bytes), 1000, {"B", "kB", "MB", "GB", "TB"});
}

std::string binary_bytes(double bytes) {
  return byte_text(bytes, 1024, {"B", "KiB", "MiB", "GiB", "TiB"});
}

}  // namespace moec
