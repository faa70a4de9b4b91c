// Passes the text of an analysis through a session.
#pragma once

#include "backends/runtime/session/session.h"
#include "frontends/measure/measurement.h"

namespace moec {

// Tokens that pass at once, numbered through all windows.
struct TextChunk {
  int64_t first = 0, count = 0;
  std::span<const int64_t> tokens;
  int64_t position = 0;  // of the first one in its window
};

// Calls `pass` for each chunk of the text, of at most `most` tokens (0: as many as the session
// takes at once), and resets the session before each window. Errors: those of `pass`,
// analyze.interrupted.
Status pass_text(Session& session, const AnalyzeOptions& options, const AnalysisText& text,
                 int64_t most, const std::function<Status(const TextChunk&)>& pass);

}  // namespace moec
