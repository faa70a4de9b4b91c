// Checks by digest that each expert of a layer is at its exported position. The unit of comparison
// is an expert's weights together with its router rows: permuting such pairs does not change the
// result. A consistent permutation within a router group, or of whole groups, is accepted.
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
  std::string digest;  // of the expert's block of the weight
  uint64_t bytes = 0;  // of the block, and trailing zero bytes; 0 if unknown
  uint64_t zero_tail = 0;
  size_t holder = 0;  // index into ExpertParts::holders
};

// A shard with weights of an expert.
struct ExpertHolder {
  std::string shard, file;
};

// The expert that one channel of the routing weights scales. `holders` has one entry per slice of
// the intermediate width, in order.
struct ExpertParts {
  std::vector<ExpertHolder> holders;
  std::vector<ExpertPart> weights, router;

  size_t holder(const std::string& shard, const std::string& file);  // added if missing
};

using LayerExperts = std::vector<ExpertParts>;  // by channel

// Joined digests of an expert's weights → the expert.
using KnownExperts = std::map<std::string, ExpertId>;
std::string join_digests(const std::vector<ExpertPart>& parts);

// `found` has as many channels as `recorded`; `groups` divides that number. Finding codes; each
// finding names layer, experts and file:
//   coverage.missing_expert     no weights, or fewer than an expert has
//   coverage.duplicate_expert   the weights of another expert of the layer; its own are missing
//   coverage.swapped_experts    two experts are exchanged
//   coverage.permuted_experts   more than two are permuted, or moved to another router group
//   coverage.foreign_expert     the weights of an expert of another layer
//   coverage.truncated_expert   a weight is shorter than those of other experts, or ends in zeros
//   coverage.changed_expert     the weights differ from the exported ones
//   coverage.router_row         a router row belongs to no expert, or to the expert of an
//                               earlier channel
Diagnostics compare_experts(int64_t layer, const LayerExperts& recorded, const LayerExperts& found,
                            int64_t groups, const KnownExperts& known);

}  // namespace moec
