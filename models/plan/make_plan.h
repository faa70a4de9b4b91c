// From a model's config to its plan, with every choice made that the request leaves open. `moec
// plan` and `moec export` decide here, so that an export is what was planned.
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
  std::string kv, mla;       // the forms that were asked for by name; empty: none was
  int64_t first_layers = 0;  // keep only so many layers, for a trial; 0: all
};

struct MadePlan {
  Plan plan;
  std::vector<ShardCut> cuts;  // how far the model was cut, and why
  Diagnostics notes;           // what was chosen in place of a default
};

// Errors: weights.copy (codes are to be copied of a model without a checkpoint), those of
// keep_first_layers(), check_kv_flag(), check_mla_flag(), resolve_build() and plan_model().
Result<MadePlan> make_plan(ModelConfig model, WeightTable weights, const Target& target,
                           PlanRequest request);

}  // namespace moec
