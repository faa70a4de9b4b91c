// How many parameters a checkpoint has, how many of them a token uses, and how they are stored.
#pragma once

#include <map>
#include <string>

#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"

namespace moec {

struct ParameterCounts {
  int64_t parameters = 0;  // elements of the tensors that the model needs
  // Read for one token: the chosen experts of each layer, and everything else but the embedding,
  // of which a token reads one row. A head that shares the embedding's tensor counts.
  int64_t active = 0;
  std::map<std::string, int64_t> bytes_by_dtype;  // as the checkpoint stores them
  int64_t bytes() const;
  // Of `active` and of one row of the embedding, as the checkpoint stores them.
  int64_t active_bytes = 0;
  int64_t all_experts_bytes = 0;  // the same with all experts instead of the chosen ones
};

// The table has all tensors that the model needs.
ParameterCounts count_parameters(const ModelConfig& model, const WeightTable& weights);

}  // namespace moec
