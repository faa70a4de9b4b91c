// Numbers as people write them.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

namespace moec {

// The finite number above 0 that is all of the text, in decimal notation.
inline std::optional<double> parse_positive(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && std::isfinite(value) && value > 0 ? std::optional(value) : std::nullopt;
}

// The whole number from 0 on that is all of the text.
inline std::optional<int64_t> parse_whole(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && value >= 0 ? std::optional(value) : std::nullopt;
}

// The same of a number above 0.
inline std::optional<int64_t> parse_count(std::string_view text) {
  const std::optional<int64_t> value = parse_whole(text);
  return value != 0 ? value : std::nullopt;
}

}  // namespace moec
