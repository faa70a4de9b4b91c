#include "models/tensors/ignored_tensors.h"

namespace moec {

const std::string* ignoring_pattern(const ModelConfig& model, const std::string& tensor) {
  // Reports show the first matching pattern as the reason.
  for (const std::string& pattern : model.names.ignored)
    if (matches_wildcard(tensor, pattern)) return &pattern;
  return nullptr;
}

bool matches_wildcard(std::string_view text, std::string_view pattern) {
  // Backtracking only to the last * suffices: if extending the last * fails, extending an earlier *
  // also fails. The time is bounded by the product of the lengths.
  size_t at = 0, p = 0;
  size_t star = std::string_view::npos,
         retry = 0;  // position of the last *, and the next end of its run
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
