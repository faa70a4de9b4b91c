#include "frontends/export/options/option_bytes.h"

#include <fmt/format.h>

#include "ir/base/parse_number.h"

namespace moec {

Result<int64_t> bytes_of_flag(std::string_view flag, const std::string& text) {
  if (const auto bytes = parse_bytes(text)) return *bytes;
  return fail("cli.bytes", fmt::format("{} {}: not a positive number of bytes", flag, text),
              "pass a number with or without a unit, for example 16GB or 24GiB");
}

// Only a bare number gets the unit; a text with a unit is not a number for parse_positive().
Result<int64_t> bytes_of_mebibyte_flag(std::string_view flag, const std::string& text) {
  return bytes_of_flag(flag, parse_positive(text) ? text + "MiB" : text);
}

}  // namespace moec
