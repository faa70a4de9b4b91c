// The alphabet of byte-level BPE: a printable character for each byte, so that a vocabulary is
// text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moec {

// The character of a byte, as UTF-8: printable Latin-1 stands for itself, the others for U+0100 and
// up in the order of the bytes (GPT-2, bytes_to_unicode).
std::string_view character_of_byte(uint8_t byte);

// The bytes of a text of this alphabet; nothing if it has another character.
std::optional<std::string> bytes_of_characters(std::string_view text);

}  // namespace moec
