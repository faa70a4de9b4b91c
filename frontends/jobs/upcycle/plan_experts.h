// The tensors of a new model with experts: those of the dense model, and in the layers that get
// experts routers and experts instead of the feed-forward part.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "frontends/jobs/upcycle/ffn_source.h"
#include "frontends/jobs/upcycle/target_config.h"
#include "frontends/jobs/upcycle/tensor_recipe.h"
#include "frontends/jobs/upcycle/upcycle_algebra.h"
#include "frontends/jobs/upcycle/upcycle_options.h"
#include "ir/base/diagnostics.h"
#include "ir/model/model_config.h"

namespace moec {

// The sizes of the experts, from what was asked for and the dense model.

// Hidden units of a shared expert that adds nothing, where the architecture always has one.
inline constexpr int64_t kIdleSharedUnits = 8;

struct ResolvedShape {
  int64_t experts = 0, top_k = 0, granularity = 1;
  int64_t dense_ff = 0;      // hidden units of the dense part
  int64_t shared_width = 0;  // of them in the shared expert: the first ones
  int64_t expert_ff = 0;     // of them in an expert
  int64_t redrawn = 0;       // of those of an expert that are drawn anew
  std::vector<bool> layers;  // which get experts

  int64_t groups() const { return experts / granularity; }
  // Experts with one router row: those of a group that tokens pick as a whole. Of a partition whose
  // parts are picked one by one, each has its own, or they would tie for every token.
  int64_t equal_rows() const { return top_k % granularity == 0 ? granularity : 1; }
};

// Where nothing is asked for: 8 groups, of which a token picks two; of a partition, all parts.
// `models` is the number of models whose feed-forward parts become experts. Errors:
//   upcycle.experts       not a whole number of groups, or of models
//   upcycle.top_k         above the number of experts, or not a whole number of groups
//   upcycle.granularity   does not divide the hidden units, or contradicts --init
//   upcycle.shared_width  not below the dense part's
//   upcycle.drop          a share that is not between 0 and 1
//   upcycle.layers        a layer that is not there or has no dense feed-forward part
Result<ResolvedShape> resolve_shape(const UpcycleOptions& options, const ModelConfig& dense,
                                    int64_t models);

// What the architecture cannot express of the shape, in words; empty: nothing.
std::vector<std::string> shape_misfits(const ResolvedShape& shape, const ModelConfig& dense,
                                       const ExpertStart& start, const TargetArch& arch);

// Hidden units of the new model's shared expert, which may be one that adds nothing.
int64_t shared_units(const ResolvedShape& shape, const TargetArch& arch);

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
