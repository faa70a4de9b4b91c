// The tensors that a model needs, found in a GGUF file or made of its tensors.
#pragma once

#include "frontends/sources/gguf/gguf_model.h"
#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"

namespace moec {

// All tensors of the file, and under WeightTable::derived those that `model` needs in another form:
// blocks are decoded, rows of rotated pairs are put apart, factors beside a tensor (NAME.scale) are
// multiplied in, the two parts of the latent's matrix are joined. `model` has passed check_model()
// and has the names of the architecture.
//
// Errors, all findings at once but for the many that follow from one:
//   gguf.tensor_missing  with its role
//   gguf.tensor_dims     expected and found
//   gguf.tensor_type     integers
//   gguf.tensor_unused   a tensor that neither the model needs nor its names list as ignored
//   gguf.no_values       blocks that moec does not decode
//   gguf.tensor_role     the model needs a tensor for which the architecture has no name
Result<WeightTable> derive_weights(const GgufModel& gguf, const ModelConfig& model);

}  // namespace moec
