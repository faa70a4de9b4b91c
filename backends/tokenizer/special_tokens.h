// Post-processors of tokenizer.json: special tokens added before and after a text.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/tokenizer/component.h"

namespace moec {

struct SurroundingTokens {
  std::vector<int64_t> before, behind;
};

// Reads BertProcessing, ByteLevel, RobertaProcessing, Sequence and, for a single text,
// TemplateProcessing. Errors: tokenizer.component, tokenizer.malformed.
Result<SurroundingTokens> read_post_processor(const JsonReport& report, const JsonValue& value);

}  // namespace moec
