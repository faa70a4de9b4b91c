// Patterns of tokenizer.json: a literal, or a regular expression compiled by PCRE2's JIT.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

// A byte range of a text.
struct TextRange {
  size_t begin = 0, end = 0;
  bool matches = false;  // false: text between matches
};

class Pattern {
 public:
  // Creates a pattern that matches `text` literally. Error: tokenizer.pattern if `text` is empty.
  static Result<Pattern> literal(std::string_view text);
  // Creates a pattern from a regular expression. Error: tokenizer.pattern if the expression is
  // invalid or its syntax is not supported.
  static Result<Pattern> regex(std::string_view pattern);

  // Appends the matches and the ranges between them; together they cover `text`, which must be
  // valid UTF-8. Not thread-safe. Error: tokenizer.pattern_limit if the search exceeds a PCRE2
  // limit.
  Status find(std::string_view text, std::vector<TextRange>& ranges) const;

 private:
  struct Code;
  explicit Pattern(std::shared_ptr<const Code> code) : code_(std::move(code)) {}

  std::shared_ptr<const Code> code_;
};

}  // namespace moec
