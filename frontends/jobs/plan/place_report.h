// A placement of experts as a file and as a table.
#pragma once

#include <string>

#include "frontends/jobs/plan/place_nodes.h"

namespace moec {

// The placement file for `moec split --place` and `moec compare --groups`: groups as in
// ir/experts/expert_groups.h, and
//
//   "stages": ["0-23", "24-47"],
//   "nodes": [{"name": "stage0.node0", "stage": 0, "group": "node0", "experts": 64, "bytes": …},
//   …], "forecast": {"on_miss": "mask", "classes": [{"name": "code", "groups": [
//     {"group": "node0", "kept": 0.91, "tokens_per_second": 31.5, "kl": 0.12}, …]}, …],
//     "counts": [{"nodes": 4, "least_experts": 20, "most_experts": 64, …}, …]}
std::string placement_text(const PlacedNodes& placed);

// A human-readable table.
std::string placement_table(const PlacedNodes& placed);

}  // namespace moec
