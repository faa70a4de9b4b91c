// Parses decimal numbers. No other file calls std::from_chars.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

// Removes the number at the start of the text and returns it. Returns empty and leaves `text`
// unchanged if it does not start with a number that fits into N. Does not accept spaces or a plus
// sign.
template <class N>
std::optional<N> take_number(std::string_view& text) {
  N value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

// Parses the whole text as a number.
template <class N>
std::optional<N> parse_number(std::string_view text) {
  const std::optional<N> value = take_number<N>(text);
  return text.empty() ? value : std::nullopt;
}

// Parses the whole text as a finite positive number.
inline std::optional<double> parse_positive(std::string_view text) {
  const auto value = parse_number<double>(text);
  return value && std::isfinite(*value) && *value > 0 ? value : std::nullopt;
}

// Parses the whole text as an integer >= 0.
inline std::optional<int64_t> parse_whole(std::string_view text) {
  const auto value = parse_number<int64_t>(text);
  return value && *value >= 0 ? value : std::nullopt;
}

// Parses the whole text as a positive integer.
inline std::optional<int64_t> parse_count(std::string_view text) {
  const auto value = parse_whole(text);
  return value != 0 ? value : std::nullopt;
}

// Memory sizes as users write them.

// Parses "17179869184", "16GiB" or "25.8 GB" and returns the number of bytes. The text is a finite
// positive number with a decimal unit (kB, MB, GB, TB), a binary unit (KiB, MiB, GiB, TiB) or none.
// Empty if the text is malformed, or if the size is below 1 byte or above 10^18 bytes.
std::optional<int64_t> parse_bytes(std::string_view text);

// Numbers, ranges and lists in flag values.

struct NumberRange {
  int64_t first = 0, last = 0;  // both included
};

// Removes leading and trailing spaces.
std::string_view trim_spaces(std::string_view text);

// Parses "3" or "0-7": integers >= 0 with first <= last.
std::optional<NumberRange> parse_range(std::string_view text);

// Formats ascending numbers as "0-7,9".
std::string ranges_text(const std::vector<int64_t>& numbers);

// Calls visit(part) for each part of the text between separators and stops at the first error.
template <class Visit>
Status for_each_part(std::string_view text, std::string_view separators, Visit visit) {
  for (;;) {
    const size_t end = text.find_first_of(separators);
    MOEC_TRY(visit(text.substr(0, end)));
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
}

}  // namespace moec
