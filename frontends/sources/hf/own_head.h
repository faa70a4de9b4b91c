// Finds heads that the config ties to the embedding but the files store separately.
#pragma once

#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"

namespace moec {

// Returns true if two tensors of the same type have equal bytes. The caller supplies the function
// because this folder reads only headers and short texts; equal_tensors() of backends/weights reads
// the payload.
using TensorsEqual = Result<bool>(const WeightTable&, const TensorRange&, const TensorRange&);

// If a tied head is stored as a tensor that differs from the embedding, unties the head and adds
// the note hf.head.own. transformers 5.23 does the same, regardless of `tie_word_embeddings`: it
// ties the head only if the checkpoint has no tensor for the head, or one that equals the
// embedding. Compares the types and, if these are equal, the bytes with `same`. If the table has
// only the head, as after save_model() of safetensors, uses the head as the embedding. The names of
// `model` must be resolved. Errors: those of `same`.
Status untie_own_head(ModelConfig& model, const WeightTable& weights, TensorsEqual& same,
                      Diagnostics& notes);

}  // namespace moec
