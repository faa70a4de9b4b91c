// Text that a terminal shows as it is. Names, keys and manifests of others may hold control
// sequences, which a terminal would obey, and marks that turn the order of characters around.
#pragma once

#include <string>
#include <string_view>

namespace moec {

// The text with each of these as \uXXXX, as JSON spells it: C0 controls other than newline and tab,
// DEL, C1 controls, marks and overrides of the writing direction, line and paragraph separators.
// Bytes from 0x80 that are not UTF-8 become \xhh: an 8-bit terminal takes some of them for C1
// controls. Escaping the text of a JSON document does not change its values.
std::string escape_controls(std::string_view text);

// The number of bytes at the end of the text that begin a UTF-8 character and do not end it; 0
// to 3.
size_t unfinished_bytes(std::string_view text);

}  // namespace moec
