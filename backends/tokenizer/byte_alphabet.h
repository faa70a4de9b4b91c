// The alphabet of byte-level BPE: one printable character per byte, so that a vocabulary can be
// stored as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moec {

// Returns the character of a byte, in UTF-8. Printable Latin-1 characters map to themselves; the
// other bytes map, in order, to U+0100 and above (GPT-2, bytes_to_unicode).
std::string_view character_of_byte(uint8_t byte);

// Inverse of character_of_byte() for a text; nullopt if a character is outside the alphabet.
std::optional<std::string> bytes_of_characters(std::string_view text);

}  // namespace moec
