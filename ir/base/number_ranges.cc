#include "ir/base/number_ranges.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/base/parse_number.h"

namespace moec {

std::string_view trim_spaces(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::optional<NumberRange> parse_range(std::string_view text) {
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
    while (j < numbers.size() && numbers[j] == numbers[j - 1] + 1) ++j;
    parts.push_back(j == i + 1 ? fmt::to_string(numbers[i])
                               : fmt::format("{}-{}", numbers[i], numbers[j - 1]));
    i = j;
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

}  // namespace moec
