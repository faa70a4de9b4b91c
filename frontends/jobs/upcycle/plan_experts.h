// Plans the tensors of the new model: the tensors of the dense model, but with routers and experts
// instead of the feed-forward part in the layers that get experts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "frontends/checkpoint/tensor_recipe.h"
#include "frontends/jobs/upcycle/ffn_source.h"
#include "frontends/jobs/upcycle/target_config.h"
#include "frontends/jobs/upcycle/upcycle_algebra.h"
#include "frontends/jobs/upcycle/upcycle_options.h"
#include "ir/base/diagnostics.h"
#include "ir/model/model_config.h"

namespace moec {

// Hidden units of a shared expert with zero output, for architectures that require a shared expert.
inline constexpr int64_t kIdleSharedUnits = 8;

// Sizes of the experts, resolved from the options and the dense model.
struct ResolvedShape {
  int64_t experts = 0, top_k = 0, granularity = 1;
  int64_t dense_ff = 0;      // hidden units of the dense part
  int64_t shared_width = 0;  // the first hidden units, which form the shared expert
  int64_t expert_ff = 0;     // hidden units per expert
  int64_t redrawn = 0;       // reinitialised hidden units per expert
  std::vector<bool> layers;  // true: the layer gets experts

  int64_t groups() const { return experts / granularity; }
  // Number of consecutive experts with equal router rows: a whole group, if tokens pick whole
  // groups. If tokens pick parts one by one, it is 1, because equal rows would tie for every token.
  int64_t equal_rows() const { return top_k % granularity == 0 ? granularity : 1; }
};

// Defaults: 8 groups, of which a token picks two; for a partition, a token picks all parts.
// `models` is the number of models whose feed-forward parts become experts. Errors:
//   upcycle.experts       not a multiple of the group size or of the number of models
//   upcycle.top_k         above the number of experts, or not a multiple of the group size
//   upcycle.granularity   does not divide the hidden units, or contradicts --init
//   upcycle.shared_width  not below the dense width
//   upcycle.drop          not in (0, 1]
//   upcycle.layers        a layer that does not exist or has no dense feed-forward part
Result<ResolvedShape> resolve_shape(const UpcycleOptions& options, const ModelConfig& dense,
                                    int64_t models);

// Describes the properties of the shape that the architecture cannot express.
std::vector<std::string> shape_misfits(const ResolvedShape& shape, const ModelConfig& dense,
                                       const ExpertStart& start, const TargetArch& arch);

// Hidden units of the new model's shared expert, including one with zero output.
int64_t shared_units(const ResolvedShape& shape, const TargetArch& arch);

struct ExpertPlanInput {
  const FfnSource& dense;               // source of all other tensors
  const std::vector<FfnSource>& parts;  // sources of the expert groups, assigned round-robin
  const WeightTable& weights;           // tensors of all models
  const ModelConfig& moe;               // the new model, read back from its config
  const ResolvedShape& shape;
  const ExpertStart& start;
  const PartFactors& factors;
  std::optional<DType> dtype;  // of all tensors; none: the dense model's types
};

// Returns the tensors in model order. Expert e is part e mod G of group e / G, G = granularity.
// Error upcycle.arch: a tensor of the dense model has no counterpart in the new one.
Result<std::vector<NewTensor>> plan_experts(const ExpertPlanInput& input);

}  // namespace moec
