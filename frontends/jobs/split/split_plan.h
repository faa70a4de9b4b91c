// What a split writes, byte for byte, before anything is written. Each node is a GGUF model in
// three files, which unmodified llama.cpp loads by the name of the first:
//
//   NODE/NAME-00001-of-00003.gguf  all keys, no tensor
//   NODE/NAME-00002-of-00003.gguf  the trunk: the same bytes for all nodes
//   NODE/NAME-00003-of-00003.gguf  routers and experts, those of the node
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

// The nodes of a split: which experts of each layer a node holds, and whether llama.cpp can run a
// model of these experts alone.

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
//   those of requested_nodes()
Result<std::vector<SplitNode>> choose_nodes(const SplitOptions& options, const MoeSource& source);

// Bytes of one of the source's files.
struct SourceBytes {
  uint32_t file = 0;  // index into Gguf::files
  uint64_t offset = 0;
  uint64_t bytes = 0;
  BlockType type = BlockType::f32;  // in whole blocks of which they are
  float factor = 1;                 // by which their values are multiplied
};

struct SplitFile {
  std::string name;  // without folder
  GgufLayout layout;
  std::vector<SourceBytes> payload;  // of the tensors, one behind the other without padding
};

struct NodePlan {
  SplitNode node;
  // Of the header only the sizes: with the tokens of a vocabulary, those of many nodes would be
  // large. plan_header() gives it again.
  SplitFile header;
  SplitFile experts;
  // Mean share of the routing weights that each layer keeps, where the node's experts are
  // multiplied by it.
  std::map<int64_t, double> kept_share;
};

struct SplitPlan {
  SplitFile trunk;
  std::vector<NodePlan> nodes;

  // All files of a node, those that it shares included.
  uint64_t bytes_of(const NodePlan& node) const {
    return node.header.layout.file_bytes + trunk.layout.file_bytes + node.experts.layout.file_bytes;
  }
  // Of all nodes, the trunk once.
  uint64_t unique_bytes() const;
};

// The layout of a node's first file.
Result<GgufLayout> plan_header(const MoeSource& source, const SplitPlan& plan,
                               const NodePlan& node);

// MoE layer → mean share that the node keeps of what its router gives to all experts, by a profile.
using KeptShares = std::map<int64_t, double>;

// The node's shares; layers that the profile does not measure are absent, and so are those in which
// the node has all experts. Error split.no_mass: the profile has no routing weights of a layer.
Result<KeptShares> kept_shares(const ExpertProfile& profile, const SplitNode& node,
                               const ExpertGrid& grid, const std::string& file);

// `shares` are those of each node, empty where nothing is corrected: the outputs of experts are
// multiplied by them, in the weights and biases of their down projections (scale_blocks.h). (Of a
// tensor ffn_down_exps.scale llama.cpp takes notice in few architectures, and in none whose routing
// weights are not normalised.) Errors: those of plan_gguf(), split.scale_type where a down
// projection is stored in a type that scale_blocks() does not take.
Result<SplitPlan> plan_split(const MoeSource& source, const std::vector<SplitNode>& nodes,
                             const std::vector<KeptShares>& shares);

}  // namespace moec
