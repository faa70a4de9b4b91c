// A line diff: "- " only in the first text, "+ " only in the second, "  " in both.
#pragma once

#include <string>
#include <string_view>

namespace moec::ir_test {

// Of runs of equal lines only those next to a difference are shown.
std::string line_diff(std::string_view expected, std::string_view found);

}  // namespace moec::ir_test
