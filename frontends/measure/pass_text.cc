#include "frontends/measure/pass_text.h"

#include <algorithm>

namespace moec {

Status pass_text(Session& session, const AnalyzeOptions& options, const AnalysisText& text,
                 int64_t most, const std::function<Status(const TextChunk&)>& pass) {
  for (int64_t window = 0; window < std::ssize(text.parts); ++window) {
    const TextPart& part = text.parts[static_cast<size_t>(window)];
    const auto tokens = std::span(text.windows.tokens)
                            .subspan(static_cast<size_t>(window * text.windows.window),
                                     static_cast<size_t>(part.count));
    // Windows are independent, so each begins with an empty cache at position 0.
    session.reset();
    for (int64_t begin = 0, count = 0; begin < part.count; begin += count) {
      MOEC_TRY(check_not_stopped(options));
      count = session.chunk_size(part.count - begin);
      if (most > 0) count = std::min(count, most);
      MOEC_TRY(
          pass({part.first + begin, count,
                tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(count)), begin}));
    }
    // Progress counts tokens without the fill of a document's last window.
    if (options.progress)
      options.progress(static_cast<uint64_t>(part.count), static_cast<uint64_t>(text.tokens()),
                       "tokens");
  }
  return {};
}

}  // namespace moec
