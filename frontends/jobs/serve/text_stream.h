// Incremental text of a token sequence: complete characters only, truncated at a stop text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/tokenizer/tokenizer.h"

namespace moec {

class TextStream {
 public:
  // The tokenizer must outlive the object; null: the model has none (TextDecoder).
  TextStream(const Tokenizer* tokenizer, std::vector<std::string> stops)
      : decoder_(tokenizer), stops_(std::move(stops)) {}

  // Adds a token and returns the text that is then final. Holds back an incomplete character and a
  // possible beginning of a stop text. Errors: those of TextDecoder::add().
  Result<std::string> add(int64_t token);
  // Returns the text that was held back; call it after the last token. Errors: those of
  // TextDecoder::finish().
  Result<std::string> rest();
  // True if a stop text has ended the text.
  bool stopped() const { return stopped_; }

 private:
  size_t kept_back() const;
  std::string take(const std::string& more);

  TextDecoder decoder_;
  std::vector<std::string> stops_;
  std::string pending_;
  bool stopped_ = false;
};

}  // namespace moec
