// From the names that a descriptor offers to the names that a checkpoint has, and whether each
// needed tensor is what it must be.
#pragma once

#include "frontends/hf/index.h"
#include "models/family.h"

namespace moec {

// Chooses among the descriptor's alternatives, and between the two ways to store experts.
void resolve_names(const Family& family, const FolderWeights& weights, ModelConfig& model);

// Findings hf.tensor.*; at most a few of each kind in full, then how many more there are.
Diagnostics check_tensors(const ModelConfig& model, const FolderWeights& weights);

}  // namespace moec
