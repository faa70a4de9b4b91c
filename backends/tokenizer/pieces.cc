#include "backends/tokenizer/pieces.h"

#include <utility>

#include "backends/tokenizer/unicode.h"

namespace moec {
namespace {

// Appends each match to the previous range unless that is a match. A match at the start of the
// piece remains a piece. Works in place, because the result never has more ranges.
void merge_with_previous(std::vector<TextRange>& parts) {
  size_t kept = 0;
  bool after_match = false;
  for (const TextRange& part : parts) {
    if (part.matches && !after_match && kept > 0)
      parts[kept - 1].end = part.end;
    else
      parts[kept++] = part;
    after_match = part.matches;
  }
  parts.resize(kept);
}

// Prepends each match to the next range unless that is a match.
void merge_with_next(std::vector<TextRange>& parts) {
  std::vector<TextRange> merged;
  for (const TextRange& part : parts) {
    if (!part.matches && !merged.empty() && merged.back().matches)
      merged.back() = {merged.back().begin, part.end, false};
    else
      merged.push_back(part);
  }
  parts = std::move(merged);
}

void merge_runs(std::vector<TextRange>& parts) {
  size_t kept = 0;
  for (const TextRange& part : parts) {
    if (kept > 0 && parts[kept - 1].matches == part.matches)
      parts[kept - 1].end = part.end;
    else
      parts[kept++] = part;
  }
  parts.resize(kept);
}

void apply(SplitBehavior behavior, std::vector<TextRange>& parts) {
  switch (behavior) {
    case SplitBehavior::Isolated:
      return;
    case SplitBehavior::Removed:
      std::erase_if(parts, [](const TextRange& part) { return part.matches; });
      return;
    case SplitBehavior::MergedWithPrevious:
      return merge_with_previous(parts);
    case SplitBehavior::MergedWithNext:
      return merge_with_next(parts);
    case SplitBehavior::Contiguous:
      return merge_runs(parts);
  }
}

}  // namespace

// An empty text has no piece, because TokenModel::encode() requires a non-empty word.
Pieces::Pieces(std::string text, bool begins) : text_(std::move(text)), begins_(begins) {
  if (!text_.empty()) ranges_.push_back({0, text_.size(), false});
}

Status Pieces::split(const FindParts& find, SplitBehavior behavior, bool invert) {
  std::vector<TextRange> all, parts;
  all.reserve(ranges_.size() + text_.size() / 4);
  for (size_t i = 0; i < size(); ++i) {
    parts.clear();
    MOEC_TRY(find((*this)[i], parts));
    if (invert)
      for (TextRange& part : parts) part.matches = !part.matches;
    apply(behavior, parts);
    // The flag `matches` is reset, because the next pre-tokenizer splits all pieces alike.
    for (const TextRange& part : parts)
      all.push_back({ranges_[i].begin + part.begin, ranges_[i].begin + part.end, false});
  }
  ranges_ = std::move(all);
  return {};
}

Status Pieces::split_at(bool (*matches)(char32_t), SplitBehavior behavior) {
  // Each matching character is a range of one character; apply() joins runs if `behavior` requires
  // it.
  const auto find = [&](std::string_view text, std::vector<TextRange>& parts) {
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t from = at;
      if (!matches(next_code_point(text, at))) continue;
      if (begin < from) parts.push_back({begin, from, false});
      parts.push_back({from, at, true});
      begin = at;
    }
    if (begin < text.size()) parts.push_back({begin, text.size(), false});
    return Status();
  };
  return split(find, behavior);
}

// Writes all pieces into one new string. A piece whose new text is empty is dropped.
void Pieces::rewrite(const std::function<void(size_t index, std::string& text)>& write) {
  std::string text;
  text.reserve(2 * text_.size());
  std::vector<TextRange> ranges;
  ranges.reserve(size());
  for (size_t i = 0; i < size(); ++i) {
    const size_t begin = text.size();
    write(i, text);
    if (text.size() > begin) ranges.push_back({begin, text.size(), false});
  }
  text_ = std::move(text);
  ranges_ = std::move(ranges);
}

}  // namespace moec
