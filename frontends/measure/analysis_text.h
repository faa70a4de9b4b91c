// The documents of an analysis, cut into windows that never hold two documents.
#pragma once

#include <string>
#include <vector>

#include "backends/runtime/text/token_windows.h"
#include "frontends/measure/analyze_options.h"
#include "ir/experts/expert_profile.h"

namespace moec {

// The tokens of one window that are of the text, numbered through all windows.
struct TextPart {
  int64_t first = 0, count = 0;
  size_t document = 0;
  int half = 0;  // of the text, for orders that are learnt on one half and measured on the other
};

struct AnalysisText {
  // A document begins a window and fills its last one with copies of its last token, which are run
  // and not counted.
  TokenWindows windows;
  std::vector<TextPart> parts;              // by window
  std::vector<size_t> category_of;          // by document; into `categories`
  std::vector<ProfileCategory> categories;  // a single one named "text" unless a suite is given

  int64_t tokens() const { return parts.empty() ? 0 : parts.back().first + parts.back().count; }
};

struct AnalysisDocument {
  std::string category;
  std::vector<int64_t> tokens;  // at least one
};

// Cuts documents into windows of `window` tokens, or of the longest document's where that is
// shorter. Of each category every second document is of the same half; of a single document every
// second window.
AnalysisText cut_documents(const std::vector<AnalysisDocument>& documents, int64_t window);

// Reads the texts, token ids or prompts that the options name, for windows of at most `positions`
// tokens. Errors: those of read_tokens(), encode_text() and read_windows() as analyze.…, those of
// read_prompt_suite().
Result<AnalysisText> read_analysis_text(const AnalyzeOptions& options,
                                        const ModelTokenizer& tokenizer, int64_t positions);

}  // namespace moec
