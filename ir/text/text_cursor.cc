#include "ir/text/text_cursor.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/base/nearest.h"
#include "ir/base/parse_number.h"

namespace moec {

// Excerpt of a token for messages: one line of printable characters.
static std::string shown(const Token& token) {
  // The excerpt is short, because a token of a hostile text can be megabytes long.
  constexpr size_t kShown = 40;
  if (token.kind == TokenKind::end) return "the end of the text";
  std::string text = quoted(token.source.substr(0, kShown));
  std::string inner = text.substr(1, text.size() - 2);
  return fmt::format("'{}{}'", inner, token.source.size() > kShown ? "…" : "");
}

Token TextCursor::take() {
  Token taken = std::move(token_);
  // The next token is read in advance, so that peek() can be const.
  token_ = lexer_.next();
  return taken;
}

bool TextCursor::accept(char mark) {
  if (!token_.is(mark)) return false;
  take();
  return true;
}

Status TextCursor::expect(char mark) {
  if (accept(mark)) return {};
  return unexpected(fmt::format("'{}'", mark));
}

Status TextCursor::expect_end() {
  if (token_.kind == TokenKind::end) return {};
  return unexpected("the end of the text");
}

tl::unexpected<Diagnostics> TextCursor::fail_at(const Token& token, std::string code,
                                                std::string cause, std::string next_step) const {
  return fail(std::move(code), std::move(cause), std::move(next_step),
              {.file = file_, .line = token.line, .column = token.column});
}

tl::unexpected<Diagnostics> TextCursor::unexpected(std::string_view what) const {
  std::string cause = fmt::format("expected {}, found {}", what, shown(token_));
  // The `text` of a bad token is the lexer's reason.
  if (token_.kind == TokenKind::bad) cause += ": " + token_.text;
  return fail_at(token_, "text.syntax", std::move(cause));
}

Result<std::string> TextCursor::name(std::string_view what) {
  // A name can begin with a digit, so a number is a name here.
  const bool is_name = (token_.kind == TokenKind::word || token_.kind == TokenKind::number) &&
                       std::all_of(token_.text.begin(), token_.text.end(), is_name_char);
  if (!is_name) return unexpected(what);
  return take().text;
}

Result<std::string> TextCursor::string() {
  if (token_.kind != TokenKind::string) return unexpected("a string in quotes");
  return take().text;
}

template <class T>
Result<T> TextCursor::number(std::string_view what) {
  // The lexer reads "inf" as a word, because a name can be spelled "inf".
  const bool infinity = std::is_same_v<T, double> && token_.is_word("inf");
  if (token_.kind != TokenKind::number && !infinity) return unexpected(what);
  const std::optional<T> value = parse_number<T>(token_.text);
  if (!value)
    return fail_at(token_, "text.number", fmt::format("{} is not {}", shown(token_), what),
                   std::is_same_v<T, double> ? "write a number that fits into a double"
                                             : "write an integer that fits into 64 bits");
  take();
  return *value;
}

Result<int64_t> TextCursor::integer() { return number<int64_t>("an integer"); }

Result<uint64_t> TextCursor::unsigned_integer() {
  return number<uint64_t>("a non-negative integer");
}

Result<double> TextCursor::real() { return number<double>("a number"); }

Result<size_t> TextCursor::one_of(std::string_view what, std::span<const std::string_view> words) {
  if (token_.kind != TokenKind::word) return unexpected(what);
  // Returns the index of the word, which callers convert to an enumerator.
  for (size_t i = 0; i < words.size(); ++i) {
    if (!token_.is_word(words[i])) continue;
    take();
    return i;
  }
  std::string known;
  for (std::string_view word : words) known += fmt::format("{}{}", known.empty() ? "" : ", ", word);
  return fail_at(
      token_, "text.unknown_word",
      fmt::format("expected {}, found {}{}", what, shown(token_), did_you_mean(token_.text, words)),
      fmt::format("write one of {}", known));
}

}  // namespace moec
