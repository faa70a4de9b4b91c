// Resolves the tensor names of a descriptor against a checkpoint, and checks the shape and type of
// each needed tensor.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontends/sources/hf/config.h"
#include "frontends/sources/hf/index.h"
#include "models/families/family.h"

namespace moec {

// Chooses among the alternative names of each role, and between experts stored one by one and
// fused.
void resolve_names(const Family& family, const FolderWeights& weights, ModelConfig& model);

// Findings hf.tensor.*: the first few in full, then one that counts the others. A finding that a
// default may explain names the key that the config leaves out.
Diagnostics check_tensors(const HfConfig& config, const FolderWeights& weights);

// The tensors of one role in a checkpoint.
struct RoleAccount {
  std::string role, name;  // the name with {i} and {e}
  Dims dims;               // of the first of them
  size_t needed = 0, found = 0;
};

struct TensorAccount {
  std::vector<RoleAccount> roles;         // in the order of the model
  std::map<std::string, size_t> ignored;  // pattern → number of tensors, if any
  // All of check_tensors(), and hf.tensor.unused for each tensor that nothing needs or ignores.
  Diagnostics findings;
};

// Accounts for each tensor that the model needs and each that the checkpoint has.
TensorAccount account_for_tensors(const HfConfig& config, const FolderWeights& weights);

}  // namespace moec
