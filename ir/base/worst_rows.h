// Tables that fit a screen: of many rows, only the worst ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

// Lines of a table. A larger `badness` is worse; NaN is the worst.
struct RankedRow {
  std::string text;
  double badness = 0;
};

// Maximum number of rows that are printed without folding, for commands with one table and for
// commands with several.
inline constexpr size_t kOnlyTableRows = 30, kTableRows = 10;
// Number of rows of a folded table.
inline constexpr size_t kWorstRows = 5;

// Joins the rows. Of more than `most` rows, returns only the kWorstRows worst ones, in the order of
// `rows`, and a line that states their number and `which`, e.g. "layers with the largest error".
std::string worst_rows(const std::vector<RankedRow>& rows, size_t most, std::string_view which);

// Joins the first numbers of a list with `separator`; "-" for an empty list. A longer list ends
// with the number of omitted ones: "1, 4, 5, 7, 8, 9, 12, 13 and 20 more".
std::string short_list(const std::vector<int64_t>& numbers, std::string_view separator);

}  // namespace moec
