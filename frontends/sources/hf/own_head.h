// Whether a head that the config ties to the embedding is stored with weights of its own.
#pragma once

#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"

namespace moec {

// Whether two tensors of one type have equal bytes. The caller gives the function, since this
// reader reads headers only; equal_tensors of backends/weights reads the payload.
using TensorsEqual = Result<bool>(const WeightTable&, const TensorRange&, const TensorRange&);

// transformers 5.23 ties the head only where the checkpoint stores none, or one that equals the
// embedding; a head that differs is used, whatever `tie_word_embeddings` says. Does the same:
// where the names of `model` are resolved and the table has tensors for both roles, compares their
// types and, if these are the same, their bytes with `same`. If they differ, unties the head, so
// that its tensor is needed and no longer ignored, and adds the note hf.head.own. If the table has
// the head alone, as safetensors' save_model() leaves it, the head is the embedding, too. Errors:
// those of `same`.
Status untie_own_head(ModelConfig& model, const WeightTable& weights, TensorsEqual& same,
                      Diagnostics& notes);

}  // namespace moec
