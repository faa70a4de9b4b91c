// Reads how often experts were chosen out of an importance matrix of llama.cpp (llama-imatrix), in
// the GGUF form of July 2025 and later.
#pragma once

#include <string>

#include "frontends/measure/analysis.h"
#include "ir/experts/expert_sets.h"

namespace moec {

// What the counts are read against.
struct ImatrixModel {
  std::string family;
  ExpertGrid grid;
};

// The file has exact counts for each layer and expert; no routing weights, norms, pairs or order of
// tokens. Errors: gguf.* of the reader; analyze.imatrix (no GGUF file, a layer without counts or
// with those of another number of experts, counts that are no whole numbers or differ among the
// matrices of a layer).
Result<Analysis> read_imatrix(const std::string& path, const ImatrixModel& model);

}  // namespace moec
