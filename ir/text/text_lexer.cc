#include "ir/text/text_lexer.h"

#include <algorithm>

namespace moec {
namespace {

// Unlike <cctype>, independent of the locale and defined for any byte.
bool is_digit(char c) { return c >= '0' && c <= '9'; }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// [0-9]+(.[0-9]+)? with an optional exponent: the format that fmt prints and from_chars reads.
bool is_number(std::string_view text) {
  size_t at = 0;
  auto digits = [&] {
    size_t first = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return at > first;
  };
  auto at_any = [&](std::string_view set) {
    return at < text.size() && set.find(text[at]) != std::string_view::npos;
  };
  if (at_any("-")) ++at;
  // "-inf" is a number. "inf" can also be a name, so TextCursor::number() decides.
  if (text.substr(at) == "inf") return at > 0;
  if (!digits()) return false;
  if (at_any(".") && (++at, !digits())) return false;
  if (at_any("eE")) {
    ++at;
    if (at_any("+-")) ++at;
    if (!digits()) return false;
  }
  return at == text.size();
}

}  // namespace

void Lexer::advance() {
  if (text_[at_] == '\n') {
    ++line_;
    column_ = 0;
  }
  ++at_;
  ++column_;
}

void Lexer::skip_space() {
  // Comments are skipped, so that the text of print_with_findings() can be parsed again.
  while (!at_end()) {
    if (peek() == '/' && peek(1) == '/')
      while (!at_end() && peek() != '\n') advance();
    else if (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r')
      advance();
    else
      return;
  }
}

Token Lexer::finish(TokenKind kind, std::string text) {
  return {kind, std::move(text), text_.substr(begin_, at_ - begin_), begin_line_, begin_column_};
}

// Reads the rest of an escape, after its backslash.
bool Lexer::lex_escape(std::string& out) {
  if (peek() == '"' || peek() == '\\') {
    out += peek();
    advance();
    return true;
  }
  const int high = hex_digit(peek(1)), low = hex_digit(peek(2));
  if (peek() != 'x' || high < 0 || low < 0) return false;
  // An escape has two hexadecimal digits, so its end is unambiguous.
  out += static_cast<char>(high * 16 + low);
  for (int i = 0; i < 3; ++i) advance();
  return true;
}

Token Lexer::lex_string(TokenKind kind) {
  advance();
  std::string text;
  // A line break ends a string, so that a missing quote does not consume the rest of the text.
  while (!at_end() && peek() != '"' && peek() != '\n') {
    const bool escaped = peek() == '\\';
    if (!escaped) text += peek();
    advance();
    if (escaped && !lex_escape(text))
      return finish(TokenKind::bad, "an unknown escape; \\\", \\\\ and \\xhh are known");
  }
  if (peek() != '"') return finish(TokenKind::bad, "a string without its closing quote");
  advance();
  return finish(kind, std::move(text));
}

Token Lexer::lex_sigil(TokenKind kind, bool (*accepts)(char)) {
  advance();
  // Checkpoints can name tensors with any characters, so only tensor names can be quoted.
  if (kind == TokenKind::tensor && peek() == '"') return lex_string(kind);
  std::string name;
  for (; !at_end() && accepts(peek()); advance()) name += peek();
  if (name.empty()) return finish(TokenKind::bad, "a sign without a name");
  return finish(kind, std::move(name));
}

Token Lexer::lex_number_or_word() {
  std::string run;
  auto take = [&] {
    run += peek();
    advance();
  };
  if (peek() == '-') take();
  while (!at_end() && is_name_char(peek())) take();
  // Name characters exclude signs, so an exponent such as "1e-5" ends before its sign.
  const bool open_exponent = run.size() > 1 && (run.back() == 'e' || run.back() == 'E') &&
                             is_number(std::string_view(run).substr(0, run.size() - 1));
  if (open_exponent && (peek() == '-' || peek() == '+') && is_digit(peek(1))) {
    take();
    while (is_digit(peek())) take();
  }
  if (is_number(run)) return finish(TokenKind::number, std::move(run));
  if (run[0] == '-') return finish(TokenKind::bad, "a minus sign without a number");
  return finish(TokenKind::word, std::move(run));
}

Token Lexer::next() {
  skip_space();
  begin_ = at_;
  begin_line_ = line_;
  begin_column_ = column_;
  if (at_end()) return finish(TokenKind::end, {});
  const char c = peek();
  if (c == '%') return lex_sigil(TokenKind::value, is_name_char);
  if (c == '@') return lex_sigil(TokenKind::tensor, is_tensor_char);
  if (c == '"') return lex_string(TokenKind::string);
  if (c == '-' || is_name_char(c)) return lex_number_or_word();
  // The remaining tokens are single characters.
  advance();
  if (std::string_view("{}[](),;:=|").find(c) != std::string_view::npos)
    return finish(TokenKind::mark, std::string(1, c));
  return finish(TokenKind::bad, "an unexpected character");
}

}  // namespace moec
