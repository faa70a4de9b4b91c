// Numbers, ranges of them and lists of parts in the texts of flags.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

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
