// Escapes text for terminals. Names, keys and manifests from other sources may contain control
// sequences that a terminal would execute, and marks that reverse the order of characters.
#pragma once

#include <string>
#include <string_view>

namespace moec {

// Escapes as \uXXXX, as in JSON: C0 controls other than newline and tab, DEL, C1 controls, marks
// and overrides of the writing direction, line and paragraph separators. Invalid UTF-8 bytes become
// \xhh, because an 8-bit terminal interprets some of these bytes as C1 controls. Escaping the text
// of a JSON document does not change its values.
std::string escape_controls(std::string_view text);

// Returns the number of bytes (0 to 3) at the end of the text that form an incomplete UTF-8
// character.
size_t unfinished_bytes(std::string_view text);

}  // namespace moec
