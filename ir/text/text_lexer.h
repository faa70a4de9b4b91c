// Tokens of the text form. Safe on any bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/base/spelling.h"

namespace moec {

enum class TokenKind : uint8_t {
  end,
  word,    // a keyword, mnemonic, element type or name: [A-Za-z0-9_.]+ that is not a number
  value,   // %name; text is the name
  tensor,  // @name or @"name"; text is the name, escapes resolved
  string,  // "…"; text has the escapes resolved
  number,  // -1.5e-3, -inf (inf without a sign is a word)
  mark,    // one of { } [ ] ( ) , ; : = |
  bad,     // text describes the error
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;
  std::string_view source;  // as spelled in the text
  uint32_t line = 1, column = 1;
  bool is(char mark) const {
    return kind == TokenKind::mark && text.size() == 1 && text[0] == mark;
  }
  bool is_word(std::string_view word) const { return kind == TokenKind::word && text == word; }
};

class Lexer {
 public:
  Lexer(std::string_view text, uint32_t first_line) : text_(text), line_(first_line) {}
  Token next();

 private:
  bool at_end() const { return at_ >= text_.size(); }
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void advance();
  void skip_space();
  Token finish(TokenKind kind, std::string text);
  Token lex_string(TokenKind kind);
  bool lex_escape(std::string& out);
  Token lex_sigil(TokenKind kind, bool (*accepts)(char));
  Token lex_number_or_word();

  std::string_view text_;
  size_t at_ = 0, begin_ = 0;
  uint32_t line_, column_ = 1, begin_line_ = 1, begin_column_ = 1;
};

}  // namespace moec
