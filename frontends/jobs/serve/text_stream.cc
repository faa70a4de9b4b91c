#include "frontends/jobs/serve/text_stream.h"

#include <algorithm>
#include <utility>

#include "backends/runtime/text/write_text.h"
#include "ir/base/terminal_text.h"

namespace moec {

// The longest end of the text that a stop text begins with.
size_t TextStream::kept_back() const {
  size_t most = unfinished_bytes(pending_);
  for (const std::string& stop : stops_)
    for (size_t size = std::min(stop.size() - 1, pending_.size()); size > most; --size)
      if (pending_.ends_with(stop.substr(0, size))) most = size;
  return most;
}

std::string TextStream::add(int64_t token) {
  if (stopped_) return {};
  pending_ += token_text(manifest_, token);
  size_t begin = std::string::npos;
  for (const std::string& stop : stops_) begin = std::min(begin, pending_.find(stop));
  stopped_ = begin != std::string::npos;
  if (stopped_) return std::exchange(pending_, {}).substr(0, begin);
  const size_t known = pending_.size() - kept_back();
  std::string text = pending_.substr(0, known);
  pending_.erase(0, known);
  return text;
}

std::string TextStream::rest() { return std::exchange(pending_, {}); }

}  // namespace moec
