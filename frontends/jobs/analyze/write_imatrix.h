// Writes what was measured as an importance matrix that llama-quantize of llama.cpp reads.
#pragma once

#include <string>

#include "frontends/measure/analysis.h"

namespace moec {

inline constexpr const char* kImatrixFile = "imatrix.gguf";

// The bytes of the file: for the three matrices of experts of each layer how many tokens each
// expert had, and the sums of the squares of what they were applied to, by column. Matrices outside
// of the experts are not in it. `dataset` names the text. The analysis must have sums. Errors:
// those of plan_gguf().
Result<std::string> imatrix_bytes(const Analysis& analysis, const std::string& dataset);

}  // namespace moec
