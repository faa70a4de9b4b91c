// A line diff. Prefixes: "- " only in the first text, "+ " only in the second, " " in both.
#pragma once

#include <string>
#include <string_view>

namespace moec::ir_test {

// Shows equal lines only next to differences.
std::string line_diff(std::string_view expected, std::string_view found);

}  // namespace moec::ir_test
