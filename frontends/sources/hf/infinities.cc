#include "frontends/sources/hf/infinities.h"

namespace moec {

std::string with_infinities(std::string_view text) {
  // The replacement has the length of the word, so that offsets in messages remain those of the
  // file.
  constexpr std::string_view kWord = "Infinity", kInstead = "\"inf\"   ";
  static_assert(kWord.size() == kInstead.size());
  std::string result(text);
  bool in_string = false;
  for (size_t i = 0; i < result.size(); ++i) {
    if (result[i] == '"') {
      in_string = !in_string;
    } else if (in_string && result[i] == '\\') {
      ++i;  // the next character is escaped
    } else if (!in_string && text.substr(i, kWord.size()) == kWord) {
      result.replace(i, kInstead.size(), kInstead);
      i += kInstead.size() - 1;
    }
  }
  return result;
}

}  // namespace moec
