#include "frontends/cli/flags/number_check.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <optional>

#include "ir/base/parse_number.h"

namespace moec {

// CLI11 converts the text only after this check, so the check sees the words as they were given.
CLI::Validator whole_from(uint64_t least) {
  return CLI::Validator(
      [least](const std::string& text) {
        const auto value = parse_number<uint64_t>(text);
        if (value && *value >= least) return std::string();
        return fmt::format("\"{}\" is not a whole number of at least {}", text, least);
      },
      fmt::format(">={}", least));
}

CLI::Validator finite_from_zero() {
  return CLI::Validator(
      [](const std::string& text) {
        const auto value = parse_number<double>(text);
        // parse_number() accepts inf and nan, which no flag can use.
        if (value && std::isfinite(*value) && *value >= 0) return std::string();
        return fmt::format("\"{}\" is not a finite number of at least 0", text);
      },
      ">=0");
}

}  // namespace moec
