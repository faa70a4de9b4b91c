#include "ir/base/spelling.h"

#include <fmt/format.h>

#include <algorithm>

namespace moec {
namespace {

// The functions of <cctype> depend on the locale.
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_printable(char c) { return c >= ' ' && c <= '~'; }

}  // namespace

bool is_name_char(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '.'; }

bool is_tensor_char(char c) { return is_name_char(c) || c == '/' || c == '-'; }

bool is_all_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), is_digit);
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (is_printable(c))
      out += c;
    else
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return out + '"';
}

}  // namespace moec
