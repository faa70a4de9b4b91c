#include "ir/base/share.h"

#include <fmt/format.h>

#include "ir/base/parse_number.h"

namespace moec {

Result<JobShare> parse_share(std::string_view text, const char* code) {
  const size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    const auto index = parse_whole(text.substr(0, slash));
    const auto count = parse_whole(text.substr(slash + 1));
    if (index && count && *index < *count) return JobShare{*index, *count};
  }
  return fail(code, fmt::format("--part \"{}\" is not I/N with I from 0 to N-1", text),
              "pass --part 0/3, --part 1/3 and --part 2/3 for three parts");
}

}  // namespace moec
