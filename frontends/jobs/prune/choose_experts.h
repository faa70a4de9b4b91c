// Chooses the experts to keep, layer by layer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontends/jobs/prune/prune_options.h"
#include "ir/base/diagnostics.h"
#include "ir/experts/expert_profile.h"
#include "ir/experts/expert_sets.h"
#include "ir/graph/ops.h"

namespace moec {

// The experts that a score would keep, compared with the kept ones.
struct ScoreOverlap {
  PruneScore by = PruneScore::saliency;
  double same = 0;            // share of the kept experts that the score keeps, too
  int64_t fewest = 0;         // minimum over layers of the experts in both sets
  int64_t fewest_layer = -1;  // the first layer with that number
  bool operator==(const ScoreOverlap&) const = default;
};

struct PruneChoice {
  ExpertSets kept;    // every MoE layer, each with the same number of experts
  int64_t count = 0;  // per layer
  // The following need a profile.
  std::vector<ScoreOverlap> overlaps;      // scores that the profile has, in the order of the enum
  std::optional<double> selections, mass;  // mean over layers of the share that kept experts have
  int64_t unused = 0;  // kept experts that no token of the profile's text selected
};

// Without options.mask, keeps the experts with the highest scores; the lower index wins ties. If
// the router has groups, each group keeps the same number. Errors:
//   prune.experts   neither a number and a profile nor a mask; or a number that removes no expert
//   prune.top_k     fewer experts than a token selects
//   prune.groups    the router's groups cannot keep equal numbers of experts, or would keep a
//                   single one although the router ranks groups by their two best scores
//   prune.score     the profile lacks the score
//   prune.counts    the mask keeps different numbers of experts in two layers or groups
//   and those of read_expert_profile(), check_profile() and read_expert_mask()
Result<PruneChoice> choose_experts(const PruneOptions& options, const ExpertGrid& grid,
                                   const Router& router,
                                   const std::optional<ExpertProfile>& profile);

}  // namespace moec
