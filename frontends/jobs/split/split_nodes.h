// The nodes of a split: which experts of each layer a node holds, and whether llama.cpp can run a
// model of these experts alone.
#pragma once

#include <string>
#include <vector>

#include "frontends/jobs/split/moe_source.h"
#include "frontends/jobs/split/split_options.h"
#include "ir/base/diagnostics.h"
#include "ir/experts/expert_sets.h"

namespace moec {

struct SplitNode {
  std::string name;    // of its folder
  ExpertSets experts;  // of every layer that has experts, the layers behind the decoder included
  int64_t count = 0;   // experts of each layer
  int64_t groups = 1;  // of its routers; 1: they choose among all
  bool operator==(const SplitNode&) const = default;
};

// Errors, before anything is written:
//   split.stages      the placement gives nodes layers of their own
//   split.counts      the layers of a node have different numbers of experts, or more than 1,024
//   split.group_sizes a node has different numbers of experts of the router's groups
//   split.llama4      another number of experts would change what llama.cpp computes
//   those of asked_nodes()
Result<std::vector<SplitNode>> choose_nodes(const SplitOptions& options, const MoeSource& source);

}  // namespace moec
