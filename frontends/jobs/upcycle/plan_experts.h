// The tensors of a new model with experts: those of the dense model, and in the layers that get
// experts routers and experts instead of the feed-forward part.
#pragma once

#include <optional>
#include <vector>

#include "frontends/jobs/upcycle/ffn_source.h"
#include "frontends/jobs/upcycle/resolve_shape.h"
#include "frontends/jobs/upcycle/tensor_recipe.h"
#include "frontends/jobs/upcycle/upcycle_algebra.h"
#include "frontends/jobs/upcycle/upcycle_options.h"
#include "ir/base/diagnostics.h"

namespace moec {

struct ExpertPlanInput {
  const FfnSource& dense;  // the model that all other tensors come from
  const std::vector<FfnSource>&
      parts;                   // whose feed-forward parts the groups of experts get in turn
  const WeightTable& weights;  // with the tensors of all of them
  const ModelConfig& moe;      // the new model, as its config is read
  const ResolvedShape& shape;
  const ExpertStart& start;
  const PartFactors& factors;
  std::optional<DType> dtype;  // of all tensors; none: that of the dense model's
};

// In the order of the model. Expert e is shard e mod G of group e / G. Error upcycle.arch: a tensor
// of the dense model has no place in the new one.
Result<std::vector<NewTensor>> plan_experts(const ExpertPlanInput& input);

}  // namespace moec
