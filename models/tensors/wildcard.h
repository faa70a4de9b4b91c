// Name patterns in which * matches any run of characters, including an empty one.
#pragma once

#include <string_view>

namespace moec {

// Runs in time proportional to at most the product of both lengths.
bool matches_wildcard(std::string_view text, std::string_view pattern);

}  // namespace moec
