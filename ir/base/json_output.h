// Writes JSON for the tools that read the output of moec.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace moec {

// The text of a value, without a final newline; `indent` -1 gives a single line. Paths, tensor
// names and arguments may contain any bytes, but JSON is UTF-8: invalid bytes become U+FFFD.
std::string json_text(const nlohmann::ordered_json& value, int indent = 2);

// A string with its quotes and escapes, for files that are written by hand.
std::string json_string(std::string_view text);

}  // namespace moec
