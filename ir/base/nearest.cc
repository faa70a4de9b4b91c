#include "ir/base/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace moec {
namespace {

// The running time of edit_distance() is proportional to the product of both lengths. A name in a
// hostile file may be megabytes long; known names are short.
constexpr size_t kLongestName = 64;

// The restricted Damerau-Levenshtein distance: insertions, deletions, substitutions and swaps of
// neighbours, with no part of the text edited twice. It needs only the last three rows of the
// table.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string_view nearest(std::string_view name, std::span<const std::string_view> known) {
  // The time is quadratic in the lengths, so the length of an untrusted name is bounded.
  if (name.size() > kLongestName) return {};
  std::string_view best;
  size_t best_distance = kLongestName;
  for (std::string_view candidate : known) {
    size_t distance = edit_distance(name, candidate);
    if (distance < best_distance && distance <= std::max<size_t>(1, candidate.size() / 3)) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> known) {
  std::string_view found = nearest(name, known);
  return found.empty() ? std::string() : fmt::format(" (did you mean '{}'?)", found);
}

}  // namespace moec
