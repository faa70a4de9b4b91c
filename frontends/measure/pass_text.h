// Runs the text of an analysis through a session.
#pragma once

#include "backends/runtime/session/session.h"
#include "frontends/measure/measurement.h"

namespace moec {

// Tokens [first, first + count) of one pass. Token numbers continue across windows.
struct TextChunk {
  int64_t first = 0, count = 0;
  std::span<const int64_t> tokens;
  int64_t position = 0;  // of the first token in its window
};

// Calls `pass` for each chunk of the text in order. A chunk has at most `most` tokens (0: the
// session's maximum) and lies in one window. Resets the session before each window. Errors: those
// of `pass`, analyze.interrupted.
Status pass_text(Session& session, const AnalyzeOptions& options, const AnalysisText& text,
                 int64_t most, const std::function<Status(const TextChunk&)>& pass);

}  // namespace moec
