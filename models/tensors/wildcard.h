// Name patterns in which * stands for any run of characters, also an empty one.
#pragma once

#include <string_view>

namespace moec {

// Time is at most the product of both lengths.
bool matches_wildcard(std::string_view text, std::string_view pattern);

}  // namespace moec
