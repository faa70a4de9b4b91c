// The nodes of an export: their manifests and files.
#pragma once

#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "frontends/jobs/split/split_options.h"
#include "ir/base/diagnostics.h"
#include "ir/experts/expert_sets.h"

namespace moec {

// A node: its manifest, and the export's files that it uses. A node contains the trunk of its
// layers and the shards of its experts. The trunk consists of attention, routers, shared experts
// and dense layers; the tables belong to the first layer, the head to the last.
struct ExportNode {
  std::string name;
  ExpertSets experts;  // per MoE layer of the node
  Manifest manifest;
  std::vector<manifest::FileRef> trunk, of_experts;
  uint64_t manifest_bytes = 0;  // of the node's manifests and those of the whole export

  uint64_t expert_bytes() const;
  // Bytes of all files of the node.
  uint64_t bytes() const;
};

// Errors:
//   split.shards      a shard mixes experts that the node needs with other experts, spans two
//   stages, or
//                     computes more than experts
//   split.no_experts  the export has no experts
//   split.stages      the stages do not end at the model's last layer
//   those of requested_nodes(), check_enough() and check_manifest()
Result<std::vector<ExportNode>> export_nodes(const SplitOptions& options, const Manifest& whole);

}  // namespace moec
