// Reads a folder of low-rank adapters as PEFT writes it: adapter_config.json and
// adapter_model.safetensors, with base_model.model.NAME.lora_A.weight [r, in] and lora_B.weight
// [out, r] for a matrix NAME.weight [out, in], to which factor · B · A is added. The factor is
// lora_alpha / r, or with use_rslora lora_alpha / √r.
#pragma once

#include <map>
#include <string>

#include "frontends/jobs/upcycle/tensor_recipe.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"

namespace moec {

struct AdapterMatrix {
  std::string b, a;  // names of the tensors
  double factor = 1;
};

struct Adapter {
  WeightTable weights;
  std::map<std::string, AdapterMatrix, std::less<>> matrices;  // by the matrix's own name
};

// Errors: file.*, json.*, safetensors.*, and
//   upcycle.adapter.config  a key is missing or has another type
//   upcycle.adapter.kind    what is no sum of a matrix and B · A of one rank: another peft_type,
//                           DoRA, biases, whole modules beside it, ranks by pattern, transposed
//                           matrices
//   upcycle.adapter.tensor  a tensor of another name, or one without its partner
//   upcycle.adapter.shape   B and A do not multiply, or have another rank than the config says
Result<Adapter> read_adapter(const std::string& folder);

}  // namespace moec
