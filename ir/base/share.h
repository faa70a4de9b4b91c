// A share of a job that several processes divide.
#pragma once

#include <cstdint>
#include <string_view>

#include "ir/base/diagnostics.h"

namespace moec {

struct JobShare {
  int64_t index = 0, count = 1;  // index < count
  // True if the share has the item with this number, of items that are dealt in turn.
  bool has(int64_t item) const { return item % count == index; }
  bool operator==(const JobShare&) const = default;
};

// Parses the value of --part: "I/N" with I from 0 to N-1. Error `code`: the text is malformed.
Result<JobShare> parse_share(std::string_view text, const char* code);

}  // namespace moec
