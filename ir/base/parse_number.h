// Numbers in decimal notation, read from text. No other file calls std::from_chars.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

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

}  // namespace moec
