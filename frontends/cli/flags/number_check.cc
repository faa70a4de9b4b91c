#include "frontends/cli/flags/number_check.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <optional>

namespace moec {
namespace {

template <class Number>
std::optional<Number> parse_all(const std::string& text) {
  Number value = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  return error == std::errc() && end == last ? std::optional(value) : std::nullopt;
}

}  // namespace

CLI::Validator whole_from(uint64_t least) {
  return CLI::Validator(
      [least](const std::string& text) {
        const auto value = parse_all<uint64_t>(text);
        if (value && *value >= least) return std::string();
        return fmt::format("\"{}\" is not a whole number of at least {}", text, least);
      },
      fmt::format(">={}", least));
}

CLI::Validator finite_from_zero() {
  return CLI::Validator(
      [](const std::string& text) {
        const auto value = parse_all<double>(text);
        if (value && std::isfinite(*value) && *value >= 0) return std::string();
        return fmt::format("\"{}\" is not a finite number of at least 0", text);
      },
      ">=0");
}

}  // namespace moec
