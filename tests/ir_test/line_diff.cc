#include "tests/ir_test/line_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace moec::ir_test {
namespace {

using Lines = std::vector<std::string_view>;

Lines split(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

// length[i][j]: length of the longest common subsequence of a[i…] and b[j…].
std::vector<std::vector<uint32_t>> common_lengths(const Lines& a, const Lines& b) {
  std::vector<std::vector<uint32_t>> length(a.size() + 1, std::vector<uint32_t>(b.size() + 1, 0));
  for (size_t i = a.size(); i-- > 0;)
    for (size_t j = b.size(); j-- > 0;)
      length[i][j] =
          a[i] == b[j] ? length[i + 1][j + 1] + 1 : std::max(length[i + 1][j], length[i][j + 1]);
  return length;
}

Lines without_far_context(const std::vector<std::string>& marked) {
  constexpr size_t kContext = 2;
  std::vector<bool> near(marked.size(), false);
  for (size_t i = 0; i < marked.size(); ++i) {
    if (marked[i][0] == ' ') continue;
    const size_t last = std::min(marked.size() - 1, i + kContext);
    for (size_t j = i - std::min(i, kContext); j <= last; ++j) near[j] = true;
  }
  Lines kept;
  for (size_t i = 0; i < marked.size(); ++i) {
    if (near[i])
      kept.push_back(marked[i]);
    else if (i == 0 || near[i - 1])
      kept.emplace_back("  …");
  }
  return kept;
}

}  // namespace

std::string line_diff(std::string_view expected, std::string_view found) {
  const Lines a = split(expected), b = split(found);
  const auto length = common_lengths(a, b);
  std::vector<std::string> marked;
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      marked.push_back(fmt::format("  {}", a[i++]));
      ++j;
    } else if (j == b.size() || (i < a.size() && length[i + 1][j] >= length[i][j + 1])) {
      marked.push_back(fmt::format("- {}", a[i++]));
    } else {
      marked.push_back(fmt::format("+ {}", b[j++]));
    }
  }
  std::string text;
  for (std::string_view line : without_far_context(marked)) text += fmt::format("{}\n", line);
  return text;
}

}  // namespace moec::ir_test
