// The text of a token sequence as it grows: whole characters only, cut where a stop text begins.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/manifest/manifest.h"

namespace moec {

class TextStream {
 public:
  TextStream(const Manifest& manifest, std::vector<std::string> stops)
      : manifest_(manifest), stops_(std::move(stops)) {}

  // What can be said for certain once `token` is known: what may be the beginning of a stop text,
  // or of a character, is kept back. Tokens that are no bytes are numbers with a space behind them.
  std::string add(int64_t token);
  // What was kept back, when no further token comes.
  std::string rest();
  // Whether a stop text was met; nothing follows it.
  bool stopped() const { return stopped_; }

 private:
  size_t kept_back() const;

  const Manifest& manifest_;
  std::vector<std::string> stops_;
  std::string pending_;
  bool stopped_ = false;
};

}  // namespace moec
