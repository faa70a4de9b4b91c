// Improves tables and codes of palettes for the error of the outputs (LNQ, arXiv 2505.07004). For
// given codes, the best entries solve a linear system; for given entries, coordinate descent
// improves the codes.
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

// Codes, and the entries of all blocks by place: 2^bits ascending entries per block.
struct PaletteCodes {
  Codes codes;
  std::vector<float> tables;
};

// Computes entries with the least tr(E·H·Eᵀ) for these codes, rounded to the element type. Entries
// without codes do not change. Reorders codes so that entries stay ascending.
void refit_tables(const PaletteProblem& problem, PaletteCodes& palette);

// Sweeps over the codes of each row several times. Each code becomes that of the entry with the
// least tr(E·H·Eᵀ) while all other codes are fixed.
void descend_codes(const PaletteProblem& problem, PaletteCodes& palette);

}  // namespace moec
