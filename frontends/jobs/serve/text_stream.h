// The text of a token sequence as it grows: whole characters only, cut where a stop text begins.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/tokenizer/tokenizer.h"

namespace moec {

class TextStream {
 public:
  // The tokenizer must outlive it; null for a model without one (TextDecoder).
  TextStream(const Tokenizer* tokenizer, std::vector<std::string> stops)
      : decoder_(tokenizer), stops_(std::move(stops)) {}

  // What can be said for certain once `token` is known: what may be the beginning of a stop text,
  // or of a character, is kept back. Errors: those of TextDecoder::add().
  Result<std::string> add(int64_t token);
  // What was kept back, when no further token comes. Errors: those of TextDecoder::finish().
  Result<std::string> rest();
  // Whether a stop text was met; nothing follows it.
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
