// A text with one token of lookahead, and the basic readers that the parsers share. Each error has
// the line and column of the offending token.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ir/text/text.h"
#include "ir/text/text_lexer.h"

namespace moec {

class TextCursor {
 public:
  TextCursor(std::string_view text, const ParseOptions& options)
      : file_(options.file), lexer_(text, options.first_line), token_(lexer_.next()) {}

  const Token& peek() const { return token_; }
  Token take();
  bool accept(char mark);
  Status expect(char mark);
  Status expect_end();

  // A name of [A-Za-z0-9_.]+; `what` names the expected item in errors ("a port name").
  Result<std::string> name(std::string_view what);
  Result<std::string> string();
  Result<int64_t> integer();
  Result<uint64_t> unsigned_integer();
  Result<double> real();
  // Reads one of a closed list of words; the error suggests the nearest one.
  Result<size_t> one_of(std::string_view what, std::span<const std::string_view> words);

  tl::unexpected<Diagnostics> fail_at(const Token& token, std::string code, std::string cause,
                                      std::string next_step = {}) const;
  // "expected WHAT, found 'token'".
  tl::unexpected<Diagnostics> unexpected(std::string_view what) const;

 private:
  template <class T>
  Result<T> number(std::string_view what);

  std::string file_;
  Lexer lexer_;
  Token token_;
};

// Parses a possibly empty, comma-separated list that ends with `close`. item() parses one item.
template <class F>
Status parse_list(TextCursor& cursor, char close, F&& item) {
  if (cursor.accept(close)) return {};
  do {
    MOEC_TRY(item());
  } while (cursor.accept(','));
  return cursor.expect(close);
}

// Parse the grammars of ir/graph/type.h, ir/graph/weight_view.h and ir/graph/encoding.h at the
// cursor. `depth` is the number of enclosing views.
Result<DType> parse_dtype_at(TextCursor& cursor);
Result<Layout> parse_layout_at(TextCursor& cursor);
Result<Type> parse_type_at(TextCursor& cursor);
Result<WeightView> parse_view_at(TextCursor& cursor, size_t depth = 0);
Result<Encoding> parse_encoding_at(TextCursor& cursor);

}  // namespace moec
