#include "ir/base/worst_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace moec {

std::string worst_rows(const std::vector<RankedRow>& rows, size_t most, std::string_view which) {
  std::vector<size_t> shown(rows.size());
  std::iota(shown.begin(), shown.end(), size_t{0});
  const bool folds = rows.size() > most;
  if (folds) {
    const auto rank = [&](size_t i) {
      // NaN has no order.
      return std::isnan(rows[i].badness) ? HUGE_VAL : rows[i].badness;
    };
    // Stable, so that equally bad rows are the first ones.
    std::stable_sort(shown.begin(), shown.end(),
                     [&](size_t a, size_t b) { return rank(a) > rank(b); });
    shown.resize(std::min(kWorstRows, most));
    std::sort(shown.begin(), shown.end());
  }
  std::string text;
  for (const size_t i : shown) text += rows[i].text;
  if (folds)
    text += fmt::format("… {} of {} {}; --json lists all\n", shown.size(), rows.size(), which);
  return text;
}

std::string short_list(const std::vector<int64_t>& numbers, std::string_view separator) {
  constexpr size_t kShown = 8;
  if (numbers.empty()) return "-";
  const size_t shown = std::min(kShown, numbers.size());
  std::string text = fmt::format(
      "{}", fmt::join(numbers.begin(), numbers.begin() + static_cast<int64_t>(shown), separator));
  if (shown < numbers.size()) text += fmt::format(" and {} more", numbers.size() - shown);
  return text;
}

}  // namespace moec
