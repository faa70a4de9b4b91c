// UTF-8, Unicode properties and normal forms, from utf8proc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moec {

// Returns the offset of the first invalid byte, or nullopt if the text is valid UTF-8.
std::optional<size_t> first_invalid_utf8(std::string_view text);

// Returns the length in bytes of the code point with this lead byte.
constexpr size_t utf8_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

// Returns the code point at `at` and advances `at` past it. The text must be valid UTF-8.
char32_t next_code_point(std::string_view text, size_t& at);
void append_utf8(std::string& text, char32_t code);

// Replaces invalid UTF-8 with U+FFFD, one per maximal subpart of an ill-formed sequence (Unicode
// 15, section 3.9).
std::string replace_invalid_utf8(std::string_view text);

enum class NormalForm : uint8_t { nfc, nfd, nfkc, nfkd };
std::string to_normal_form(std::string_view text, NormalForm form);

bool is_white_space(char32_t code);  // property White_Space
bool is_numeric(char32_t code);      // categories Nd, Nl, No
bool is_punctuation(char32_t code);  // categories P*
bool is_mark(char32_t code);         // categories M*
// Categories L*, M*, Nd, Nl, Pc and the joiners: \w of Rust's regex crate, without the enclosed
// letters in category So.
bool is_word(char32_t code);
bool is_nonspacing_mark(char32_t code);   // category Mn
bool is_control_or_other(char32_t code);  // categories Cc, Cf, Co
// Appends the full, context-free lower-case mapping of a code point.
void append_lower(std::string& text, char32_t code);

}  // namespace moec
