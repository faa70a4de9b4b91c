// Tables with one row per shard. Large exports have hundreds of shards, so similar rows are folded.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace moec {

struct ShardRow {
  std::string name;  // "L00.moe.g3"
  std::string text;  // printed after the name
  std::string file;  // printed last, unless other rows are folded into this one
};

// Maximum number of rows that are printed without folding.
inline constexpr size_t kScreenRows = 20;

// Returns one line per row, each starting with `indent`. More than kScreenRows rows are folded
// unless `all` is set: rows with the same text whose names differ only in digits share one line
// with their count. If more than kScreenRows lines remain, only the first ones are listed, followed
// by the number of omitted shards.
std::string shard_lines(const std::vector<ShardRow>& rows, bool all, const std::string& indent);

}  // namespace moec
