// UTF-8, and the properties and normal forms of Unicode that tokenizers name, from utf8proc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moec {

// The offset of the first byte that is not part of valid UTF-8.
std::optional<size_t> first_invalid_utf8(std::string_view text);

// The bytes of the code point that `lead` begins.
constexpr size_t utf8_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

// The code point at `at`, which moves behind it. The text is valid UTF-8.
char32_t next_code_point(std::string_view text, size_t& at);
void append_utf8(std::string& text, char32_t code);

// Replaces each part that is not valid UTF-8 by U+FFFD, as many as Unicode recommends: one for each
// longest part that could begin a code point (Unicode 15, section 3.9, "Substitution of Maximal
// Subparts").
std::string replace_invalid_utf8(std::string_view text);

enum class NormalForm : uint8_t { nfc, nfd, nfkc, nfkd };
std::string to_normal_form(std::string_view text, NormalForm form);

bool is_white_space(char32_t code);  // property White_Space
bool is_numeric(char32_t code);      // categories Nd, Nl, No
bool is_punctuation(char32_t code);  // categories P*
bool is_mark(char32_t code);         // categories M*
// Categories L*, M*, Nd, Nl and Pc, and the joiners: \w of Rust's regular expressions without the
// enclosed letters of So.
bool is_word(char32_t code);
bool is_nonspacing_mark(char32_t code);   // category Mn
bool is_control_or_other(char32_t code);  // categories Cc, Cf, Co
// The full lower case of one code point, whatever stands beside it.
void append_lower(std::string& text, char32_t code);

}  // namespace moec
