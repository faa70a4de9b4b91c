// Lists the tensors of a model's GGUF file, as views of the checkpoint's tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frontends/sources/gguf/architecture.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"
#include "ir/graph/weight_view.h"
#include "ir/model/model_config.h"
#include "ir/model/weight_policy.h"

namespace moec {

struct ModelTensor {
  std::string name;  // "blk.0.attn_q.weight"
  WeightGroup group = WeightGroup::vectors;
  int64_t layer = -1;  // -1: not in a layer
  Dims dims;           // outermost first
  WeightView view;     // of shape `dims` in f32, f16 or bf16; unused if `floats` is not empty
  std::vector<float> floats;  // values that no checkpoint tensor contains
  // Blocks of an MXFP4 checkpoint as u8 [.., 17 · blocks per row]: per block, the scale, then the
  // codes with two consecutive elements per byte. Absent if the checkpoint has no such blocks.
  std::optional<WeightView> mxfp4;
};

// Returns all tensors that llama.cpp needs for the model, in model order. The experts of a layer
// share one tensor per matrix. Rows of rotated pairs are adjacent if the architecture requires it.
// kv_b of latent attention is split into keys and values. Frequency divisors are a tensor. Error
// gguf.family if the model needs a tensor that the architecture does not have. `weights` must have
// passed the checks of open_checkpoint().
Result<std::vector<ModelTensor>> model_tensors(const ModelConfig& model, const WeightTable& weights,
                                               const GgufArchitecture& architecture);

}  // namespace moec
