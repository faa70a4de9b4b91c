// The text of an analysis: documents, cut into windows. Each window belongs to one document.
#pragma once

#include <string>
#include <vector>

#include "backends/runtime/text/token_windows.h"
#include "frontends/measure/analyze_options.h"
#include "ir/experts/expert_profile.h"

namespace moec {

// The tokens [first, first + count) of one window, without padding. Token numbers continue across
// windows and do not count padding.
struct TextPart {
  int64_t first = 0, count = 0;
  size_t document = 0;
  int half = 0;  // 0 or 1: half of the text, for measurements on held-out text
};

struct AnalysisText {
  // Each document begins a window. The last window of a document is padded with copies of its last
  // token, which run through the model but are not counted.
  TokenWindows windows;
  std::vector<TextPart> parts;              // one per window
  std::vector<size_t> category_of;          // per document: index into `categories`
  std::vector<ProfileCategory> categories;  // without a suite, one category named "text"

  int64_t tokens() const { return parts.empty() ? 0 : parts.back().first + parts.back().count; }
};

struct AnalysisDocument {
  std::string category;
  std::vector<int64_t> tokens;  // at least one
};

// Cuts documents into windows of `window` tokens, or of the longest document's length if that is
// shorter. The documents of a category are assigned to the halves alternately. If there is only one
// document, its windows alternate instead.
AnalysisText cut_documents(const std::vector<AnalysisDocument>& documents, int64_t window);

// Reads the texts, token ids or prompts of the options and cuts them into windows of at most
// `positions` tokens. Errors: those of read_tokens(), encode_text() and read_windows() with the
// prefix "analyze."; those of read_prompt_suite().
Result<AnalysisText> read_analysis_text(const AnalyzeOptions& options,
                                        const ModelTokenizer& tokenizer, int64_t positions);

}  // namespace moec
