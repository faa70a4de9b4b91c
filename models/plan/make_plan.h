// Makes the plan of a model from its config and resolves every choice that the request leaves open.
// `moec plan` and `moec export` share this function, so that an export matches its plan.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"
#include "ir/target/target.h"
#include "models/plan/cut_shards.h"

namespace moec {

// Truncates a model to its first layers, for a trial export that would otherwise take hours.
// Keeps the first `count` layers, the embedding, the final norm and the head. Removes tensors from
// the table that only removed layers need. Does nothing if `count` is the number of layers. Error
// model.layers_kept: count is below 1 or above the number of layers.
Status keep_first_layers(ModelConfig& model, WeightTable& weights, int64_t count);

struct PlanRequest {
  BuildOptions build;  // context 0 and head_slices 0: chosen here
  CutOptions cuts;
  std::string kv, mla;       // forms requested by flags; empty: not requested
  int64_t first_layers = 0;  // layers to keep, for a trial; 0: all
};

struct MadePlan {
  Plan plan;
  std::vector<ShardCut> cuts;  // the cuts and their reasons
  Diagnostics notes;           // choices that differ from a default
};

// Errors: weights.copy (copied codes need a checkpoint), those of keep_first_layers(),
// check_kv_flag(), check_mla_flag(), resolve_build() and plan_model().
Result<MadePlan> make_plan(ModelConfig model, WeightTable weights, const Target& target,
                           PlanRequest request);

}  // namespace moec
