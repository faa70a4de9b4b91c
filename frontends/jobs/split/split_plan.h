// Byte-exact plan of a split, made before writing. Each node is a GGUF model in three files, which
// unmodified llama.cpp loads by the name of the first:
//
//   NODE/NAME-00001-of-00003.gguf  all keys, no tensors
//   NODE/NAME-00002-of-00003.gguf  the trunk: the same bytes for all nodes
//   NODE/NAME-00003-of-00003.gguf  the node's routers and experts
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backends/formats/gguf/gguf_layout.h"
#include "frontends/jobs/split/moe_source.h"
#include "frontends/jobs/split/split_options.h"
#include "ir/base/diagnostics.h"
#include "ir/experts/expert_profile.h"
#include "ir/experts/expert_sets.h"

namespace moec {

// A node of a GGUF split: a model that llama.cpp can run with these experts alone.
struct SplitNode {
  std::string name;    // folder name
  ExpertSets experts;  // per MoE layer, including layers after the decoder
  int64_t count = 0;   // experts per layer
  int64_t groups = 1;  // router groups; 1: routers pick from all experts
  bool operator==(const SplitNode&) const = default;
};

// Chooses the experts per node. Errors:
//   split.stages       the placement divides the layers into stages
//   split.counts       layers of a node differ in the number of experts, or have more than 1,024
//   split.group_sizes  a node has unequal numbers of experts of the router's groups
//   split.llama4       the number of experts would change what llama.cpp computes
//   those of requested_nodes()
Result<std::vector<SplitNode>> choose_nodes(const SplitOptions& options, const MoeSource& source);

// A byte range of a source file.
struct SourceBytes {
  uint32_t file = 0;  // index into Gguf::files
  uint64_t offset = 0;
  uint64_t bytes = 0;
  BlockType type = BlockType::f32;  // the range consists of whole blocks of this type
  float factor = 1;                 // scales the values
};

struct SplitFile {
  std::string name;  // file name without folder
  GgufLayout layout;
  std::vector<SourceBytes> payload;  // of the tensors, concatenated without padding
};

struct NodePlan {
  SplitNode node;
  // Contains only sizes. The entries are dropped, because they include the vocabulary and would be
  // large for many nodes; plan_header() recomputes them.
  SplitFile header;
  SplitFile experts;
  // Layer → mean share of the routing weights that the node keeps; scales the node's experts.
  std::map<int64_t, double> kept_share;
};

struct SplitPlan {
  SplitFile trunk;
  std::vector<NodePlan> nodes;

  // Bytes of all files of a node, including the shared trunk.
  uint64_t bytes_of(const NodePlan& node) const {
    return node.header.layout.file_bytes + trunk.layout.file_bytes + node.experts.layout.file_bytes;
  }
  // Bytes of all nodes, counting the trunk once.
  uint64_t unique_bytes() const;
};

// The layout of a node's first file.
Result<GgufLayout> plan_header(const MoeSource& source, const SplitPlan& plan,
                               const NodePlan& node);

// MoE layer → mean share of the routing weights of all experts that the node keeps, according to a
// profile.
using KeptShares = std::map<int64_t, double>;

// Returns the node's shares. Layers that the profile does not measure, or in which the node has all
// experts, are absent. Error split.no_mass: the profile has no routing weights for the node's
// experts.
Result<KeptShares> kept_shares(const ExpertProfile& profile, const SplitNode& node,
                               const ExpertGrid& grid, const std::string& file);

// `shares` has one entry per node, empty for no correction. Expert outputs are multiplied by the
// shares, which are folded into the weights and biases of the down projections (scale_blocks.h). A
// tensor ffn_down_exps.scale is not an alternative: llama.cpp applies it in few architectures, and
// in none that needs the correction. Errors: those of plan_gguf(); split.scale_type if
// scale_blocks() does not support the type of a down projection.
Result<SplitPlan> plan_split(const MoeSource& source, const std::vector<SplitNode>& nodes,
                             const std::vector<KeptShares>& shares);

}  // namespace moec
