// Resolves the tensor names of a descriptor in a checkpoint, and checks the shape and type of each
// tensor that the model needs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontends/sources/hf/config.h"
#include "frontends/sources/hf/index.h"
#include "models/families/family.h"

namespace moec {

// Selects one of the alternative names of each role, and one of the alternatives of role_choices(),
// such as individual or fused experts.
void resolve_names(const Family& family, const FolderWeights& weights, ModelConfig& model);

// Returns findings hf.tensor.*: the first ones in full, then one with the number of the others. If
// the default of an absent key may explain a finding, the finding names the key.
Diagnostics check_tensors(const HfConfig& config, const FolderWeights& weights);

// Tensors of one role in a checkpoint.
struct RoleAccount {
  std::string role, name;  // `name` is the template with {i} and {e}
  Dims dims;               // shape of the first tensor
  size_t needed = 0, found = 0;
};

struct TensorAccount {
  std::vector<RoleAccount> roles;         // in model order
  std::map<std::string, size_t> ignored;  // pattern → number of tensors, at least 1
  // All findings of check_tensors(), and hf.tensor.unused for each tensor that is neither needed
  // nor ignored.
  Diagnostics findings;
};

// Accounts for every tensor that the model needs and every tensor in the checkpoint.
TensorAccount account_for_tensors(const HfConfig& config, const FolderWeights& weights);

}  // namespace moec
