// Is each expert of a layer where it was exported to, told by digests? What is compared is the pair
// of an expert's weights and its rows of the router: pairs that change places together compute the
// same, so a consistent permutation is accepted, inside a group of a router that has groups, or of
// whole groups.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/experts/expert_id.h"

namespace moec {

struct ExpertPart {
  std::string name;    // of the weight in the graph: "experts.3.gate.weight"
  std::string digest;  // of the expert's block of it
  uint64_t bytes = 0;  // of the block, and how many zeros it ends in; 0 where not known
  uint64_t zero_tail = 0;
  size_t holder = 0;  // index into ExpertParts::holders
};

// A shard with weights of an expert.
struct ExpertHolder {
  std::string shard, file;
};

// The expert that one channel of the routing weights is multiplied with. It has a holder for each
// slice of its intermediate width, in their order.
struct ExpertParts {
  std::vector<ExpertHolder> holders;
  std::vector<ExpertPart> weights, router;

  size_t holder(const std::string& shard, const std::string& file);  // added where it is missing
};

using LayerExperts = std::vector<ExpertParts>;  // by channel

// Digests of an expert's weights, joined → whose they are.
using KnownExperts = std::map<std::string, ExpertId>;
std::string join_digests(const std::vector<ExpertPart>& parts);

// `found` has as many channels as `recorded`. `groups` divides their number. Codes, each naming
// layer, experts and file:
//   coverage.missing_expert     no weights, or not as many as an expert has
//   coverage.duplicate_expert   the weights of another expert of the layer, its own being nowhere
//   coverage.swapped_experts    two experts in each other's place
//   coverage.permuted_experts   more than two; or experts that left their group of the router
//   coverage.foreign_expert     the weights of an expert of another layer
//   coverage.truncated_expert   a weight is shorter than those of other experts, or ends in zeros
//   coverage.changed_expert     other weights than those that were exported
//   coverage.router_row         a router's row that is no expert's, or that of another as well
Diagnostics compare_experts(int64_t layer, const LayerExperts& recorded, const LayerExperts& found,
                            int64_t groups, const KnownExperts& known);

}  // namespace moec
