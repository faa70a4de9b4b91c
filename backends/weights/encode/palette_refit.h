// Better tables and codes of palettes under the errors of outputs (LNQ, arXiv 2505.07004): for
// given codes the best entries solve a system of linear equations, and for given entries codes are
// improved one after the other.
#pragma once

#include "backends/weights/encode/code_blocks.h"

namespace moec {

struct PaletteProblem {
  const Weights& weights;
  std::span<const ErrorMetric> metrics;
  CodeBlocks blocks;
  DType dtype;  // of the entries
  int bits = 4;
};

// Codes, and the entries of all blocks by place: 2^bits in rising order for each.
struct PaletteCodes {
  Codes codes;
  std::vector<float> tables;
};

// Entries with the least tr(E·H·Eᵀ) for these codes, rounded to the element type. Entries without a
// code stay. The codes follow the order of the entries.
void refit_tables(const PaletteProblem& problem, PaletteCodes& palette);

// Goes through the codes of each row, a few times, and gives each the entry with the least
// tr(E·H·Eᵀ) while all others stay.
void descend_codes(const PaletteProblem& problem, PaletteCodes& palette);

}  // namespace moec
