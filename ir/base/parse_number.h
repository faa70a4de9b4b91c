// Numbers in decimal notation, read from text. No other file calls std::from_chars.
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

// Removes the number at the start of the text and returns it. Returns nothing, and leaves the text
// as it is, if no number of type N is there: no spaces, no plus sign, no overflow.
template <class N>
std::optional<N> take_number(std::string_view& text) {
  N value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

// Returns the number that is all of the text.
template <class N>
std::optional<N> parse_number(std::string_view text) {
  const std::optional<N> value = take_number<N>(text);
  return text.empty() ? value : std::nullopt;
}

// Returns the finite number above 0 that is all of the text.
inline std::optional<double> parse_positive(std::string_view text) {
  const auto value = parse_number<double>(text);
  return value && std::isfinite(*value) && *value > 0 ? value : std::nullopt;
}

// Returns the whole number from 0 on that is all of the text.
inline std::optional<int64_t> parse_whole(std::string_view text) {
  const auto value = parse_number<int64_t>(text);
  return value && *value >= 0 ? value : std::nullopt;
}

// Returns the whole number above 0 that is all of the text.
inline std::optional<int64_t> parse_count(std::string_view text) {
  const auto value = parse_whole(text);
  return value != 0 ? value : std::nullopt;
}

// Amounts of memory as people write them.

// Bytes of "17179869184", "16GiB" or "25.8 GB": a finite number above 0 with a decimal unit (kB,
// MB, GB, TB), a binary unit (KiB, MiB, GiB, TiB) or none. Nothing if the text has another form, or
// if the amount is below 1 byte or above 10^18 bytes.
std::optional<int64_t> parse_bytes(std::string_view text);

// Numbers, ranges of them and lists of parts in the texts of flags.

struct NumberRange {
  int64_t first = 0, last = 0;  // both included
};

// Without the spaces around it.
std::string_view trim_spaces(std::string_view text);

// "3" or "0-7", of numbers from 0 on that ascend.
std::optional<NumberRange> parse_range(std::string_view text);

// "0-7,9" of ascending numbers.
std::string ranges_text(const std::vector<int64_t>& numbers);

// Calls visit(part) for each part of the text between separators, up to the first error.
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
