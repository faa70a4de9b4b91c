#include "frontends/jobs/serve/text_stream.h"

#include <algorithm>
#include <utility>

namespace moec {

// Length of the longest suffix of the text that is a prefix of a stop text.
size_t TextStream::kept_back() const {
  size_t most = 0;
  for (const std::string& stop : stops_)
    // At most one byte less than the stop text: the whole stop text would have been found.
    for (size_t size = std::min(stop.size() - 1, pending_.size()); size > most; --size)
      if (pending_.ends_with(stop.substr(0, size))) most = size;
  return most;
}

std::string TextStream::take(const std::string& more) {
  pending_ += more;
  size_t begin = std::string::npos;
  // The earliest of several stop texts ends the text.
  for (const std::string& stop : stops_) begin = std::min(begin, pending_.find(stop));
  stopped_ = begin != std::string::npos;
  if (stopped_) return std::exchange(pending_, {}).substr(0, begin);
  const size_t known = pending_.size() - kept_back();
  std::string text = pending_.substr(0, known);
  pending_.erase(0, known);
  return text;
}

Result<std::string> TextStream::add(int64_t token) {
  if (stopped_) return std::string();
  MOEC_ASSIGN(const std::string more, decoder_.add(token));
  return take(more);
}

Result<std::string> TextStream::rest() {
  if (stopped_) return std::string();
  MOEC_ASSIGN(const std::string more, decoder_.finish());
  std::string text = take(more);
  // No more tokens follow, so a pending beginning of a stop text is ordinary text.
  return stopped_ ? text : text + std::exchange(pending_, {});
}

}  // namespace moec
