#include "frontends/cli/flags/one_of.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "ir/base/nearest.h"

namespace moec {

CLI::Validator one_of(std::vector<std::string> names) {
  // Made before `names` is moved into the validator.
  const std::string choices = fmt::format("{{{}}}", fmt::join(names, ","));
  return CLI::Validator(
      [names = std::move(names)](const std::string& word) {
        if (std::find(names.begin(), names.end(), word) != names.end()) return std::string();
        const std::vector<std::string_view> known(names.begin(), names.end());
        return fmt::format("\"{}\" is not one of {}{}", word, fmt::join(names, ", "),
                           did_you_mean(word, known));
      },
      choices);
}

}  // namespace moec
