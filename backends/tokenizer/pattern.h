// Patterns of tokenizer files: a text, or a regular expression that PCRE2 compiles to machine code.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

// A part of a text, in bytes.
struct TextRange {
  size_t begin = 0, end = 0;
  bool matches = false;  // the pattern
};

class Pattern {
 public:
  // A pattern that finds `text` itself, not empty.
  static Result<Pattern> literal(std::string_view text);
  // Error tokenizer.pattern: not a regular expression, or none that moec can read.
  static Result<Pattern> regex(std::string_view pattern);

  // Appends the matches of the text, which is valid UTF-8, and the parts between them, so that the
  // ranges cover it. Error tokenizer.pattern_limit if the search takes more than the limits of
  // PCRE2.
  Status find(std::string_view text, std::vector<TextRange>& ranges) const;

 private:
  struct Code;
  explicit Pattern(std::shared_ptr<const Code> code) : code_(std::move(code)) {}

  std::shared_ptr<const Code> code_;
};

}  // namespace moec
