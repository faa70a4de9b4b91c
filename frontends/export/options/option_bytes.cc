#include "frontends/export/options/option_bytes.h"

#include <fmt/format.h>

#include "ir/base/parse_number.h"

namespace moec {

Result<int64_t> bytes_of_flag(std::string_view flag, const std::string& text) {
  if (const auto bytes = parse_bytes(text)) return *bytes;
  return fail("cli.bytes", fmt::format("{} {}: not a number of bytes above 0", flag, text),
              "give a number with or without a unit, for example 16GB or 24GiB");
}

Result<int64_t> bytes_of_mebibyte_flag(std::string_view flag, const std::string& text) {
  return bytes_of_flag(flag, parse_positive(text) ? text + "MiB" : text);
}

}  // namespace moec
