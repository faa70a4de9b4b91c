#include "frontends/cli/print/shard_rows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace moec {
namespace {

std::vector<ShardRow> rows_of(int layers, int kinds) {
  std::vector<ShardRow> rows;
  for (int layer = 0; layer < layers; ++layer)
    for (int kind = 0; kind < kinds; ++kind)
      rows.push_back({fmt::format("L{:02}.moe.g{}", layer, kind), fmt::format("{} ops", kind),
                      fmt::format("{}-{}.onnx", layer, kind)});
  return rows;
}

TEST(ShardRows, ShowsAllOfAFewRows) {
  EXPECT_EQ(shard_lines(rows_of(2, 1), false, "  "),
            "  L00.moe.g0     0 ops  0-0.onnx\n  L01.moe.g0     0 ops  1-0.onnx\n");
}

TEST(ShardRows, FoldsSimilarRows) {
  EXPECT_EQ(shard_lines(rows_of(30, 2), false, ""),
            "L00.moe.g0     0 ops and 29 alike\n"
            "L00.moe.g1     1 ops and 29 alike\n"
            "--all lists every shard\n");
}

TEST(ShardRows, CountsHiddenRows) {
  const std::string lines = shard_lines(rows_of(2, 25), false, "");
  EXPECT_TRUE(lines.ends_with("… 10 more shards\n--all lists every shard\n")) << lines;
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 22);
}

TEST(ShardRows, ListsEveryRowOnRequest) {
  const std::string lines = shard_lines(rows_of(30, 2), true, "");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 60);
  EXPECT_EQ(lines.find("alike"), std::string::npos);
}

}  // namespace
}  // namespace moec
