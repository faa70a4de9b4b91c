// The tensors of a GGUF file that holds a model, as views of the checkpoint's.
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
  int64_t layer = -1;         // -1: of no layer
  Dims dims;                  // the outermost first
  WeightView view;            // of these sizes, in f32, f16 or bf16; unless `floats` has elements
  std::vector<float> floats;  // the values themselves, where no checkpoint has them
  // The bytes of its blocks as a checkpoint in MXFP4 stores them, u8 [.., 17 · blocks of a row]:
  // the scale, then the elements with those that follow one another in a byte. None: it does not.
  std::optional<WeightView> mxfp4;
};

// All tensors that llama.cpp needs for the model, in the order of the model: experts of a layer in
// one tensor of each kind, rows of rotated pairs side by side where the architecture has them so,
// the latent's matrix in two parts, divisors of the rotation. Error gguf.family where the model
// needs a tensor that the architecture does not have. `weights` has passed the checks of
// open_checkpoint().
Result<std::vector<ModelTensor>> model_tensors(const ModelConfig& model, const WeightTable& weights,
                                               const GgufArchitecture& architecture);

}  // namespace moec
