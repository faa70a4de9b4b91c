// From the names that a descriptor offers to the names that a checkpoint has, and whether each
// needed tensor is what it must be.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontends/hf/index.h"
#include "models/families/family.h"

namespace moec {

// Chooses among the descriptor's alternatives, and between the two ways to store experts.
void resolve_names(const Family& family, const FolderWeights& weights, ModelConfig& model);

// Findings hf.tensor.*: at most a few in full, then how many more there are.
Diagnostics check_tensors(const ModelConfig& model, const FolderWeights& weights);

// How the tensors of a role stand in a checkpoint.
struct RoleAccount {
  std::string role, name;  // the name with {i} and {e}
  Dims dims;               // of the first of them
  size_t needed = 0, found = 0;
};

struct TensorAccount {
  std::vector<RoleAccount> roles;         // in the order of the model
  std::map<std::string, size_t> ignored;  // pattern → how many tensors; of patterns with any
  // All of check_tensors(), and hf.tensor.unused for each tensor that nothing needs or ignores.
  Diagnostics findings;
};

// Each tensor that the model needs, and each that the checkpoint has.
TensorAccount account_for_tensors(const ModelConfig& model, const FolderWeights& weights);

}  // namespace moec
