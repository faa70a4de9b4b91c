// The text between normalizer and model, cut into pieces: each is one word for the model.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/tokenizer/pattern.h"
#include "ir/base/enum_table.h"

namespace moec {

// What becomes of the parts that match: they are pieces of their own, are dropped, join the part
// before or behind them, or a run of them is one piece. The names of tokenizer.json.
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

// Appends ranges that cover a text.
using FindParts = std::function<Status(std::string_view text, std::vector<TextRange>& ranges)>;

class Pieces {
 public:
  // One piece, all of `text`. `begins` says that nothing stood in front of it.
  Pieces(std::string text, bool begins);

  size_t size() const { return ranges_.size(); }
  std::string_view operator[](size_t index) const {
    const TextRange& range = ranges_[index];
    return std::string_view(text_).substr(range.begin, range.end - range.begin);
  }
  // Whether the piece begins the whole text.
  bool begins_text(size_t index) const { return begins_ && ranges_[index].begin == 0; }

  // Cuts each piece into the parts that `find` gives. Errors: those of `find`.
  Status split(const FindParts& find, SplitBehavior behavior, bool invert = false);
  // Cuts each piece at the characters for which `matches` holds.
  Status split_at(bool (*matches)(char32_t), SplitBehavior behavior);
  // Replaces each piece by what `write` appends to a text.
  void rewrite(const std::function<void(size_t index, std::string& text)>& write);

 private:
  std::string text_;
  std::vector<TextRange> ranges_;  // none is empty
  bool begins_ = false;
};

}  // namespace moec
