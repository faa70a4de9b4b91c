#include "backends/tokenizer/pieces.h"

#include <gtest/gtest.h>

#include "backends/tokenizer/unicode.h"

namespace moec {
namespace {

std::string split(std::string_view text, SplitBehavior behavior, bool invert = false) {
  Pieces pieces(std::string(text), true);
  const Pattern dash = Pattern::literal("-").value();
  const auto find = [&](std::string_view part, std::vector<TextRange>& ranges) {
    return dash.find(part, ranges);
  };
  EXPECT_TRUE(pieces.split(find, behavior, invert));
  std::string all;
  for (size_t i = 0; i < pieces.size(); ++i) all += std::string(pieces[i]) + "|";
  return all;
}

TEST(Pieces, AppliesSplitBehaviors) {
  EXPECT_EQ(split("the-final--end", SplitBehavior::Isolated), "the|-|final|-|-|end|");
  EXPECT_EQ(split("the-final--end", SplitBehavior::Removed), "the|final|end|");
  EXPECT_EQ(split("the-final--end", SplitBehavior::MergedWithPrevious), "the-|final-|-|end|");
  EXPECT_EQ(split("the-final--end", SplitBehavior::MergedWithNext), "the|-final|-|-end|");
  EXPECT_EQ(split("the-final--end", SplitBehavior::Contiguous), "the|-|final|--|end|");
  EXPECT_EQ(split("the-final", SplitBehavior::Removed, true), "-|");
}

TEST(Pieces, DropsEmptyPieces) {
  Pieces pieces("a b", true);
  ASSERT_TRUE(pieces.split_at(is_white_space, SplitBehavior::Isolated));
  pieces.rewrite([&](size_t i, std::string& text) {
    if (pieces[i] != " ") text += std::string(pieces[i]) + "!";
  });
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_EQ(pieces[0], "a!");
  EXPECT_TRUE(pieces.begins_text(0));
  EXPECT_FALSE(pieces.begins_text(1));
}

TEST(Unicode, ReplacesMaximalInvalidSubparts) {
  EXPECT_EQ(replace_invalid_utf8("a\xf0\x9f\x98"
                                 "b\xc0\xaf"),
            "a\xef\xbf\xbd"
            "b\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(replace_invalid_utf8("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(first_invalid_utf8("a\xc3\xa9\xff"), 3U);
}

TEST(Unicode, LowercasesToSeveralCharacters) {
  std::string text;
  for (const char32_t code : {U'İ', U'Σ', U'ẞ'}) append_lower(text, code);
  EXPECT_EQ(text, "i\xcc\x87σß");
}

}  // namespace
}  // namespace moec
