#include "ir/base/parse_number.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

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
  // The limit is below 2^63, so the conversion to int64_t is defined.
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
  // A size below 1 byte would be truncated to 0.
  if (!number || *number * unit_bytes > kMost || *number * unit_bytes < 1) return std::nullopt;
  return static_cast<int64_t>(*number * unit_bytes);
}

std::string_view trim_spaces(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::optional<NumberRange> parse_range(std::string_view text) {
  // parse_whole() accepts no minus sign, so the first dash separates the ends.
  const size_t dash = text.find('-');
  const auto first = parse_whole(trim_spaces(text.substr(0, dash)));
  const auto last =
      dash == std::string_view::npos ? first : parse_whole(trim_spaces(text.substr(dash + 1)));
  if (!first || !last || *first > *last) return std::nullopt;
  return NumberRange{*first, *last};
}

std::string ranges_text(const std::vector<int64_t>& numbers) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < numbers.size();) {
    size_t j = i + 1;
    // The numbers ascend, so a run ends at the first gap.
    while (j < numbers.size() && numbers[j] == numbers[j - 1] + 1) ++j;
    parts.push_back(j == i + 1 ? fmt::to_string(numbers[i])
                               : fmt::format("{}-{}", numbers[i], numbers[j - 1]));
    i = j;
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

}  // namespace moec
