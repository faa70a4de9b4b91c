// A share of a job that several processes divide.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ir/base/parse_number.h"

namespace moec {

struct JobShare {
  int64_t index = 0, count = 1;  // index < count
  // True if the share has the item with this number, of items that are dealt in turn.
  bool has(int64_t item) const { return item % count == index; }
  bool operator==(const JobShare&) const = default;
};

// Parses "I/N" with I from 0 to N-1. Empty if the text is malformed.
inline std::optional<JobShare> parse_share(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto index = parse_whole(text.substr(0, slash));
  const auto count = parse_whole(text.substr(slash + 1));
  if (!index || !count || *index >= *count) return std::nullopt;
  return JobShare{*index, *count};
}

}  // namespace moec
