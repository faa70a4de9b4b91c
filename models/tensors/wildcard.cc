#include "models/tensors/wildcard.h"

namespace moec {

bool matches_wildcard(std::string_view text, std::string_view pattern) {
  size_t at = 0, p = 0;
  size_t star = std::string_view::npos, retry = 0;  // the last * and where its run ends next
  while (at < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = at;
    } else if (p < pattern.size() && pattern[p] == text[at]) {
      ++p;
      ++at;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      at = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace moec
