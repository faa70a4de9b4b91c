// Handles Infinity in a config.json, which Python writes as a bare word that is not valid JSON.
#pragma once

#include <string>
#include <string_view>

namespace moec {

// Replaces each bare word Infinity outside of strings with the string "inf", padded with blanks to
// preserve the offsets of all other characters.
std::string with_infinities(std::string_view text);

}  // namespace moec
