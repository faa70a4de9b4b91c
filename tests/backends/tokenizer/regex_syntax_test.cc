// Syntax that Oniguruma and PCRE2 interpret differently.
#include "backends/tokenizer/regex_syntax.h"

#include <gtest/gtest.h>

#include "backends/tokenizer/pattern.h"

namespace moec {
namespace {

bool is_script(std::string_view name) { return name == "Han"; }

std::string pcre2(std::string_view pattern) {
  const auto translated = pcre2_pattern(pattern, is_script);
  return translated ? *translated : translated.error().front().code;
}

// Returns `text` with each match in brackets.
std::string marked(std::string_view pattern, std::string_view text) {
  const auto compiled = Pattern::regex(pattern);
  if (!compiled) return compiled.error().front().code;
  std::vector<TextRange> parts;
  if (const Status found = compiled->find(text, parts); !found) return found.error().front().code;
  std::string all;
  for (const TextRange& part : parts) {
    const std::string_view in = text.substr(part.begin, part.end - part.begin);
    all += part.matches ? "[" + std::string(in) + "]" : std::string(in);
  }
  return all;
}

TEST(RegexSyntax, TranslatesClassesToProperties) {
  EXPECT_EQ(pcre2(R"(\s\S)"), R"([\p{White_Space}][^\p{White_Space}])");
  EXPECT_EQ(pcre2(R"([^\s\p{L}])"), R"([^\p{White_Space}\p{L}])");
  EXPECT_EQ(pcre2(R"([\S])"), R"([\P{White_Space}])");
  EXPECT_EQ(pcre2(R"(\p{Han}\P{^Lu})"), R"(\p{sc:Han}\p{Lu})");
}

TEST(RegexSyntax, ReadsPlusAfterIntervalAsRepetition) {
  EXPECT_EQ(marked(R"(\p{N}{1,3}+)", "a12345"), "a[12345]") << "Ruby has no possessive interval";
  EXPECT_EQ(marked(R"((?:ab){2}+c)", "ababababc"), "[ababababc]");
  EXPECT_EQ(marked(R"(a++a)", "aaa"), "aaa") << "a possessive +";
}

TEST(RegexSyntax, IntersectsClasses) {
  EXPECT_EQ(marked(R"([\p{L}&&[^a-c]]+)", "abxyzc"), "ab[xyz]c");
  EXPECT_EQ(marked(R"([a-z&&[x-z]])", "ax"), "a[x]");
  EXPECT_EQ(pcre2("[a[b]]"), "tokenizer.pattern");
}

TEST(RegexSyntax, MatchesUnicodeWhiteSpace) {
  EXPECT_EQ(marked(R"(\s+)",
                   "a\xe2\x80\x83"
                   "b\xe1\xa0\x8e"
                   "c"),
            "a[\xe2\x80\x83]"
            "b\xe1\xa0\x8e"
            "c")
      << "U+180E is not a space";
}

// In Ruby, the flag m concerns the dot, and anchors match at lines without it.
TEST(RegexSyntax, ReadsFlagMAsDotall) {
  EXPECT_EQ(marked("(?m:a.b)", "a\nb"), "[a\nb]");
  EXPECT_EQ(marked("(?:a.b)", "a\nb"), "a\nb");
  EXPECT_EQ(marked("(?-m:^b)", "a\nb"), "a\n[b]");
}

TEST(RegexSyntax, MatchesLineEnds) { EXPECT_EQ(marked("a$", "a\na"), "[a]\n[a]"); }

TEST(RegexSyntax, RejectsUnknownEscapes) {
  for (const char* pattern : {R"(\G)", R"(\k<a>)", R"(\xff)", R"(\X)", "[a", R"(\p)", "a{,x}"})
    EXPECT_EQ(pcre2(pattern), "tokenizer.pattern") << pattern;
  EXPECT_EQ(marked("(", "a"), "tokenizer.pattern");
}

TEST(Pattern, SplitsAtEmptyMatches) { EXPECT_EQ(marked("x*", "axb"), "a[x]b"); }

TEST(Pattern, MatchesLongRuns) {
  const std::string spaces(1 << 20, ' ');
  EXPECT_EQ(marked(R"(\s+(?!\S)|\s+)", spaces), "[" + spaces + "]");
}

}  // namespace
}  // namespace moec
