// Name patterns in which * matches any run of characters, including an empty one.
#pragma once

#include <string_view>

namespace moec {

// Takes time at most proportional to the product of both lengths.
bool matches_wildcard(std::string_view text, std::string_view pattern);

}  // namespace moec
