#include "backends/tokenizer/byte_alphabet.h"

#include <array>

#include "backends/tokenizer/unicode.h"

namespace moec {
namespace {

// 68 of the 256 bytes have no printable character. They get the characters from U+0100 on.
constexpr char32_t kCharacters = 0x144;  // up to U+0143

struct Alphabet {
  std::array<std::string, 256> characters;
  std::array<std::optional<uint8_t>, kCharacters> bytes;
};

// 0xad, the soft hyphen, is not printable. GPT-2 also counts the space as not printable.
Alphabet make_alphabet() {
  Alphabet alphabet;
  char32_t moved = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    const char32_t code = printable ? byte : moved++;
    append_utf8(alphabet.characters[byte], code);
    alphabet.bytes[code] = static_cast<uint8_t>(byte);
  }
  return alphabet;
}

// Made once, on first use; the initialization of a local static is thread-safe.
const Alphabet& alphabet() {
  static const Alphabet made = make_alphabet();
  return made;
}

}  // namespace

std::string_view character_of_byte(uint8_t byte) { return alphabet().characters[byte]; }

std::optional<std::string> bytes_of_characters(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const char32_t code = next_code_point(text, at);
    if (code >= kCharacters || !alphabet().bytes[code]) return std::nullopt;
    bytes += static_cast<char>(*alphabet().bytes[code]);
  }
  return bytes;
}

}  // namespace moec
