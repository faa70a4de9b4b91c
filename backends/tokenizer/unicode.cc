#include "backends/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "ir/base/invariant.h"

namespace moec {
namespace {

const utf8proc_uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

utf8proc_category_t category_of(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

// True if the category lies in [first, last] of utf8proc's enumeration. The enumeration lists the
// categories of each major class contiguously: L*, M*, N*, P*, S*, Z*, C*.
bool is_between(char32_t code, utf8proc_category_t first, utf8proc_category_t last) {
  const utf8proc_category_t category = category_of(code);
  return category >= first && category <= last;
}

bool is_ascii(std::string_view text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  return true;
}

// The length of the maximal subpart at `at`, at least 1. Valid ranges of the second byte depend on
// the lead byte (Unicode 15, table 3-7).
size_t ill_formed_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  const unsigned lead = byte(0);
  if (lead < 0xc2 || lead > 0xf4) return 1;
  // The narrower ranges exclude overlong forms (e0, f0), surrogates (ed) and code points above
  // U+10FFFF (f4).
  const unsigned least = lead == 0xe0 ? 0xa0U : lead == 0xf0 ? 0x90U : 0x80U;
  const unsigned most = lead == 0xed ? 0x9fU : lead == 0xf4 ? 0x8fU : 0xbfU;
  if (byte(1) < least || byte(1) > most || lead < 0xe0) return 1;
  const bool has_third = byte(2) >= 0x80 && byte(2) <= 0xbf;
  return has_third && lead >= 0xf0 ? 3 : 2;
}

void append_normal(std::string& text, std::string_view line, NormalForm form) {
  const bool composes = form == NormalForm::nfc || form == NormalForm::nfkc;
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  const auto options = static_cast<utf8proc_option_t>(
      UTF8PROC_STABLE | (composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
      (compatible ? UTF8PROC_COMPAT : 0));
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(bytes_of(line), static_cast<utf8proc_ssize_t>(line.size()), &mapped, options);
  // The text is valid UTF-8, so an error is a failed allocation or an overflow of its size.
  MOEC_CHECK(length >= 0, "{}", utf8proc_errmsg(length));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  text.append(mapped, mapped + length);
}

}  // namespace

std::optional<size_t> first_invalid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    utf8proc_int32_t code = 0;
    const auto left = static_cast<utf8proc_ssize_t>(text.size() - at);
    const utf8proc_ssize_t length = utf8proc_iterate(bytes_of(text) + at, left, &code);
    if (length < 0) return at;
    at += static_cast<size_t>(length);
  }
  return std::nullopt;
}

// An invalid text is a bug of the caller: Tokenizer::encode() rejects invalid UTF-8.
char32_t next_code_point(std::string_view text, size_t& at) {
  utf8proc_int32_t code = 0;
  const auto left = static_cast<utf8proc_ssize_t>(text.size() - at);
  const utf8proc_ssize_t length = utf8proc_iterate(bytes_of(text) + at, left, &code);
  MOEC_CHECK(length > 0, "a text is not valid UTF-8");
  at += static_cast<size_t>(length);
  return static_cast<char32_t>(code);
}

void append_utf8(std::string& text, char32_t code) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes.data());
  text.append(bytes.begin(), bytes.begin() + length);
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string valid;
  while (const auto at = first_invalid_utf8(text)) {
    valid.append(text.substr(0, *at)).append("\xef\xbf\xbd");
    text.remove_prefix(*at + ill_formed_length(text, *at));
  }
  return valid.append(text);
}

// A newline never composes, so lines normalize separately; ASCII lines need no work.
std::string to_normal_form(std::string_view text, NormalForm form) {
  std::string normal;
  normal.reserve(text.size());
  while (!text.empty()) {
    // npos is larger than any size, so the last line ends with the text.
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    if (is_ascii(line))
      normal += line;
    else
      append_normal(normal, line, form);
    text.remove_prefix(end);
  }
  return normal;
}

// U+0085 has the property White_Space, but it is in category Cc.
bool is_white_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r');
  return code == 0x85 || is_between(code, UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZP);
}

bool is_numeric(char32_t code) {
  return is_between(code, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

bool is_punctuation(char32_t code) {
  return is_between(code, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

bool is_mark(char32_t code) { return is_between(code, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME); }

bool is_word(char32_t code) {
  return is_between(code, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_NL) ||
         category_of(code) == UTF8PROC_CATEGORY_PC || code == 0x200c || code == 0x200d;
}

bool is_nonspacing_mark(char32_t code) { return category_of(code) == UTF8PROC_CATEGORY_MN; }

// Excludes Cn, so unassigned code points are kept, and Cs, because a valid text has no surrogates.
bool is_control_or_other(char32_t code) {
  const utf8proc_category_t category = category_of(code);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_CO;
}

// U+0130 is the only code point with an unconditional lower case of two code points
// (SpecialCasing.txt); utf8proc has only the simple mapping.
void append_lower(std::string& text, char32_t code) {
  if (code == 0x130)
    text += "i\xcc\x87";
  else
    append_utf8(text, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
}

}  // namespace moec
