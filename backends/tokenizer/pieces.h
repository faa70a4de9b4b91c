// A normalized text split into pieces. The model encodes each piece separately.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/tokenizer/pattern.h"
#include "ir/base/enum_table.h"

namespace moec {

// Handling of the ranges that match, with the names of tokenizer.json: kept as pieces, dropped,
// merged into the previous or the next piece, or runs of matches merged into one piece.
enum class SplitBehavior : uint8_t {
  Isolated,
  Removed,
  MergedWithPrevious,
  MergedWithNext,
  Contiguous,
};
constexpr auto enum_names(SplitBehavior) {
  return name_table<SplitBehavior>(
      {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"});
}

// Splits a text: appends ranges that cover it.
using FindParts = std::function<Status(std::string_view text, std::vector<TextRange>& ranges)>;

class Pieces {
 public:
  // A single piece, `text`. `begins` is true if the piece starts the input of the tokenizer.
  Pieces(std::string text, bool begins);

  size_t size() const { return ranges_.size(); }
  std::string_view operator[](size_t index) const {
    const TextRange& range = ranges_[index];
    return std::string_view(text_).substr(range.begin, range.end - range.begin);
  }
  // Returns true if the piece starts the input of the tokenizer.
  bool begins_text(size_t index) const { return begins_ && ranges_[index].begin == 0; }

  // Splits each piece into the ranges of `find`. Errors: those of `find`.
  Status split(const FindParts& find, SplitBehavior behavior, bool invert = false);
  // Splits each piece at the characters for which `matches` returns true.
  Status split_at(bool (*matches)(char32_t), SplitBehavior behavior);
  // Replaces each piece with the text that `write` appends.
  void rewrite(const std::function<void(size_t index, std::string& text)>& write);

 private:
  std::string text_;
  std::vector<TextRange> ranges_;  // never empty
  bool begins_ = false;
};

}  // namespace moec
