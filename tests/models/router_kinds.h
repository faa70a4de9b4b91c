// Selects golden cases by their routers.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tests/passes/golden_plans.h"

namespace moec {

// Determines the choice of experts and the ops of their weights. Sizes are 0 or 1.
struct RoutingSample {
  MoeConfig moe;
  int64_t matrices = 0;  // per expert
  bool operator==(const RoutingSample&) const = default;
};

inline RoutingSample routing_sample(const ModelConfig& model) {
  MoeConfig moe = model.moe;
  moe.experts = moe.expert_ff = moe.latent = moe.shared_ff = 0;
  moe.routing.top_k = moe.routing.groups_kept = 0;
  moe.routing.eps = 0;
  moe.routing.scale = 1;
  moe.shared_gated = moe.shared_averaged = moe.parts_normed = false;
  moe.gate_up_order = GateUpOrder::gate_first;
  // Sizes whose presence adds ops.
  for (int64_t* size : {&moe.router_hidden, &moe.null_slots}) *size = std::min<int64_t>(*size, 1);
  moe.routing.groups = std::min<int64_t>(moe.routing.groups, 2);
  return {moe, static_cast<int64_t>(model.mlp.gating.matrices())};
}

// The first golden case of each kind of router.
inline const std::vector<std::string>& cases_of_router_kinds() {
  static const std::vector<std::string> cases = [] {
    std::vector<RoutingSample> kinds;
    std::vector<std::string> first;
    for (const char* name : kFamilyCases) {
      const ModelConfig& model = golden_checkpoint(name).config;
      const RoutingSample kind = routing_sample(model);
      if (model.moe.experts == 0 || std::find(kinds.begin(), kinds.end(), kind) != kinds.end())
        continue;
      kinds.push_back(kind);
      first.emplace_back(name);
    }
    return first;
  }();
  return cases;
}

}  // namespace moec
