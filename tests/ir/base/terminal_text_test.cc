#include "ir/base/terminal_text.h"

#include <gmock/gmock.h>

namespace moec {
namespace {

// ESC, CSI as a C1 control in UTF-8, a right-to-left override, DEL, a carriage return.
constexpr const char* kHostile =
    "a\x1b[2Jb\xc2\x9b"
    "c\xe2\x80\xae"
    "d\x7f"
    "e\r";

TEST(TerminalText, EscapesControlCharacters) {
  EXPECT_EQ(escape_controls(kHostile), "a\\u001b[2Jb\\u009bc\\u202ed\\u007fe\\u000d");
  EXPECT_EQ(escape_controls("\xe2\x81\xa6\xe2\x81\xa9\xd8\x9c\xe2\x80\x8f\xe2\x80\xa8"),
            "\\u2066\\u2069\\u061c\\u200f\\u2028");
  EXPECT_EQ(escape_controls(std::string_view("\0\b", 2)), "\\u0000\\u0008");
}

TEST(TerminalText, KeepsPrintableText) {
  for (const char* text :
       {"", "line\n\tnext\n", "π … 漢字 \xf0\x9f\x98\x80", "\xc2\xa0\xe2\x80\x93"})
    EXPECT_EQ(escape_controls(text), text);
}

// An 8-bit terminal reads 0x9b as CSI; an overlong encoding of ESC decodes to ESC.
TEST(TerminalText, EscapesInvalidUtf8) {
  EXPECT_EQ(escape_controls("\x9b"
                            "1m\xff"),
            "\\x9b1m\\xff");
  EXPECT_EQ(escape_controls("\xe0\x80\x9b"), "\\u001b");
  EXPECT_EQ(escape_controls("\xe2\x80"), "\\xe2\\x80");
}

TEST(TerminalText, CountsUnfinishedTrailingBytes) {
  EXPECT_EQ(unfinished_bytes("ab"), 0u);
  EXPECT_EQ(unfinished_bytes("a\xe2"), 1u);
  EXPECT_EQ(unfinished_bytes("a\xe2\x80"), 2u);
  EXPECT_EQ(unfinished_bytes("a\xe2\x80\xae"), 0u);
  EXPECT_EQ(unfinished_bytes("\xf0\x9f\x98"), 3u);
  EXPECT_EQ(unfinished_bytes("\x80\x80\x80\x80"), 0u);
}

}  // namespace
}  // namespace moec
