// Makes the plan of a model from its config and resolves every choice that the request leaves open.
// `moec plan` and `moec export` share this function, so that an export matches its plan.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/weight_table.h"
#include "ir/target/target.h"
#include "models/plan/cut_shards.h"

namespace moec {

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
