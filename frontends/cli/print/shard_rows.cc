#include "frontends/cli/print/shard_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace moec {
namespace {

struct Folded {
  const ShardRow* first;
  size_t count;
};

// Layers and expert groups differ only in digits, so their rows get the same key.
std::string without_digits(std::string name) {
  std::erase_if(name, [](char c) { return c >= '0' && c <= '9'; });
  return name;
}

std::vector<Folded> fold(const std::vector<ShardRow>& rows) {
  std::vector<Folded> folded;
  // Maps a key to the index of its row, so that rows keep the order of their first members.
  std::map<std::string, size_t> places;
  for (const ShardRow& row : rows) {
    const auto [place, is_new] =
        // The newline keeps keys unambiguous: names and texts are single lines.
        places.emplace(without_digits(row.name) + "\n" + row.text, folded.size());
    if (is_new)
      folded.push_back({&row, 1});
    else
      ++folded[place->second].count;
  }
  return folded;
}

}  // namespace

std::string shard_lines(const std::vector<ShardRow>& rows, bool all, const std::string& indent) {
  // A short table is easier to read unfolded.
  const bool whole = all || rows.size() <= kScreenRows;
  std::vector<Folded> folded;
  if (whole)
    for (const ShardRow& row : rows) folded.push_back({&row, 1});
  else
    folded = fold(rows);
  const size_t shown = whole ? folded.size() : std::min(folded.size(), kScreenRows);
  std::string lines;
  size_t left = 0;
  for (size_t i = 0; i < folded.size(); ++i) {
    const auto& [row, count] = folded[i];
    if (i >= shown) {
      // Counts shards, not lines, because a hidden line may stand for several shards.
      left += count;
      continue;
    }
    // The file of one of several shards would exceed the width of a screen.
    const std::string last = count > 1           ? fmt::format(" and {} alike", count - 1)
                             : row->file.empty() ? ""
                                                 : "  " + row->file;
    lines += fmt::format("{}{:<14} {}{}\n", indent, row->name, row->text, last);
  }
  if (left > 0) lines += fmt::format("{}… {} more shards\n", indent, left);
  if (!whole) lines += fmt::format("{}--all lists every shard\n", indent);
  return lines;
}

}  // namespace moec
