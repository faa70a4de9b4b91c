#include "ir/base/worst_rows.h"

#include <gtest/gtest.h>

#include <cmath>

namespace moec {
namespace {

std::vector<RankedRow> rows_of(const std::vector<double>& badness) {
  std::vector<RankedRow> rows;
  for (size_t i = 0; i < badness.size(); ++i)
    rows.push_back({std::to_string(i) + "\n", badness[i]});
  return rows;
}

TEST(WorstRows, KeepsShortTables) {
  EXPECT_EQ(worst_rows(rows_of({3, 1, 2}), 3, "layers"), "0\n1\n2\n");
  EXPECT_EQ(worst_rows({}, 3, "layers"), "");
}

TEST(WorstRows, ListsTheWorstInTheirOrder) {
  EXPECT_EQ(worst_rows(rows_of({3, 9, 0, 7, 8, 1, 6, 5}), 7, "layers with the largest error"),
            "1\n3\n4\n6\n7\n… 5 of 8 layers with the largest error; --json lists all\n");
}

TEST(WorstRows, PrefersTheFirstOfEqualRows) {
  EXPECT_EQ(worst_rows(rows_of({0, 0, 0, 0, 0, 0, std::nan("")}), 6, "layers"),
            "0\n1\n2\n3\n6\n… 5 of 7 layers; --json lists all\n");
}

TEST(WorstRows, ShortensListsOfNumbers) {
  EXPECT_EQ(short_list({}, ", "), "-");
  EXPECT_EQ(short_list({1, 2, 3, 4, 5, 6, 7, 8}, " "), "1 2 3 4 5 6 7 8");
  EXPECT_EQ(short_list({1, 2, 3, 4, 5, 6, 7, 8, 9, 11}, ", "), "1, 2, 3, 4, 5, 6, 7, 8 and 2 more");
}

}  // namespace
}  // namespace moec
