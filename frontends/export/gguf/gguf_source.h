// A model in GGUF files that is written as GGUF files again: its keys and names stay, and its
// tensors are copied or stored in other types.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/formats/gguf/emit_gguf.h"
#include "frontends/export/gguf/tensor_types.h"
#include "frontends/sources/gguf/gguf.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"

namespace moec {

// The values of `view` as elements or blocks of the type.
GgufPayload float_payload(WeightView view, BlockType type);

struct GgufSourceTensor {
  GgufTensorInfo info;
  GgufPayload payload;
};

class GgufSource {
 public:
  GgufSource(Gguf file, ModelConfig model, Diagnostics warnings);

  // Those of the first file but for what the new files say themselves: alignment, parts and the
  // mixture of types. Without the tokenizer, its keys are left out, and the tokens are numbers.
  Result<std::vector<GgufEntry>> entries(bool tokenizer) const;

  const std::vector<GgufTensor>& tensors() const { return file_.tensors; }
  // A tensor as it will be stored. What has no role in the model (factors of rotations and of
  // tensors, layers that guess further tokens) is copied. Error gguf.no_values.
  Result<GgufSourceTensor> stored(size_t index, TensorTypes& types) const;

  bool embed_is_head() const { return model_.head.tied; }
  const ModelConfig& model() const { return model_; }
  const WeightTable& weights() const { return weights_; }
  const Diagnostics& warnings() const { return warnings_; }

 private:
  struct Place {
    WeightGroup group = WeightGroup::vectors;
    int64_t layer = -1;
  };

  GgufPayload copied(const GgufTensor& tensor) const;

  Gguf file_;
  ModelConfig model_;
  WeightTable weights_;
  Diagnostics warnings_;
  std::map<std::string, Place> places_;  // of tensors that have a role
};

// Reads and checks headers, as open_gguf() does, but for tensors whose types are not decoded.
Result<GgufSource> read_gguf_source(const std::string& path);

}  // namespace moec
