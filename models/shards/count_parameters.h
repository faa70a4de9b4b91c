// Counts a checkpoint's parameters, the parameters used per token, and their stored bytes.
#pragma once

#include <map>
#include <string>

#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"

namespace moec {

struct ParameterCounts {
  int64_t parameters = 0;  // elements of the tensors that the model needs
  // Parameters used per token: the chosen experts of each layer and everything else except the
  // embedding, of which a token reads one row. Includes a head that is tied to the embedding.
  int64_t active = 0;
  std::map<std::string, int64_t> bytes_by_dtype;  // as stored in the checkpoint
  int64_t bytes() const;
  // Stored bytes of `active` and of one row of the embedding.
  int64_t active_bytes = 0;
  int64_t all_experts_bytes = 0;  // as active_bytes, with all experts instead of the chosen ones
};

// The table must have all tensors that the model needs.
ParameterCounts count_parameters(const ModelConfig& model, const WeightTable& weights);

}  // namespace moec
