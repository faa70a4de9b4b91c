// The documents of a comparison.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/runtime/text/token_windows.h"

namespace moec {

struct CompareDocument {
  std::string category;
  std::vector<int64_t> tokens;  // at least one
};

struct DocumentSource {
  std::string prompts;  // a suite (frontends/measure/prompt_suite.h); empty: texts or tokens
  std::vector<std::string> texts;  // files, one document each
  std::string tokens_file;         // file of token ids, one document
  std::string model;               // model folder, for messages
};

// Errors: those of read_tokens() with codes compare.*, those of read_prompt_suite().
Result<std::vector<CompareDocument>> read_documents(const DocumentSource& source,
                                                    const ModelTokenizer& tokenizer);

}  // namespace moec
