// JSON for the tools that read what moec prints or writes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace moec {

// The text of a value, without a final newline; `indent` -1 gives one line. Paths, tensor names and
// arguments may hold any bytes, JSON only UTF-8: what is not becomes U+FFFD.
std::string json_text(const nlohmann::ordered_json& value, int indent = 2);

}  // namespace moec
