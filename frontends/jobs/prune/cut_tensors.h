// Cuts the tensors of a checkpoint to the kept experts. Tensors are found by name, so that stored
// parts of quantized weights are cut like the weights.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "frontends/checkpoint/tensor_recipe.h"
#include "ir/base/diagnostics.h"
#include "ir/experts/expert_sets.h"
#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"

namespace moec {

// The pruned form of a tensor.
struct CutResult {
  std::optional<NewTensor> tensor;  // absent: the tensor belongs to a removed expert
  bool experts = false;             // the tensor belongs to routed experts
};

class TensorCuts {
 public:
  // `before` is the source's model with its tensor names; `after` is the pruned one. `kept` lists
  // each MoE layer. Error prune.tensor: a tensor has no axis of experts.
  static Result<TensorCuts> plan(const ModelConfig& before, const ModelConfig& after,
                                 const ExpertSets& kept);

  // Error prune.tensor: the tensor's experts cannot be separated.
  Result<CutResult> cut(const std::string& name, const Type& type) const;

 private:
  // A tensor with an axis of experts.
  struct Axis {
    int64_t layer = 0;
    size_t axis = 0;
    int64_t each = 1;      // entries of the axis per expert
    bool experts = false;  // a tensor of experts, not of a router
  };

  void add_names(const ModelConfig& model, const std::string& role, int64_t layer);
  void add_stored(const ModelConfig& model, const std::string& name, const Axis& axis);
  std::vector<TensorPiece> pieces(const WeightView& view, const Axis& axis) const;

  int64_t experts_ = 0, count_ = 0;  // per layer: before and after
  ExpertSets kept_;
  std::map<std::string, int64_t, std::less<>> heads_;  // "….experts." → layer
  std::map<std::string, Axis, std::less<>> axes_;      // by name
};

}  // namespace moec
