#include "ir/base/parse_bytes.h"

#include <array>

#include "ir/base/parse_number.h"

namespace moec {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};

// "B" comes last: the other names end with it.
constexpr std::array<Unit, 9> kUnits = {{{"KiB", 1024.0},
                                         {"MiB", 1048576.0},
                                         {"GiB", 1073741824.0},
                                         {"TiB", 1099511627776.0},
                                         {"kB", 1e3},
                                         {"MB", 1e6},
                                         {"GB", 1e9},
                                         {"TB", 1e12},
                                         {"B", 1}}};

}  // namespace

std::optional<int64_t> parse_bytes(std::string_view text) {
  constexpr double kMost = 1e18;
  double unit_bytes = 1;
  for (const Unit& unit : kUnits)
    if (text.ends_with(unit.name)) {
      text.remove_suffix(unit.name.size());
      unit_bytes = unit.bytes;
      break;
    }
  while (text.ends_with(' ')) text.remove_suffix(1);
  const auto number = parse_positive(text);
  if (!number || *number * unit_bytes > kMost || *number * unit_bytes < 1) return std::nullopt;
  return static_cast<int64_t>(*number * unit_bytes);
}

}  // namespace moec
