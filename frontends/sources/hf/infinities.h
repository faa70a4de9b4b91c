// Infinity in a config.json. Python writes it as a bare word, which is not JSON.
#pragma once

#include <string>
#include <string_view>

namespace moec {

// The text with the string "inf" in the place of each bare word Infinity outside of strings,
// followed by blanks, so that every other character keeps its place.
std::string with_infinities(std::string_view text);

}  // namespace moec
