// The nodes of an export of moec: of each the manifest, which names the shards that it holds, and
// the files, which are those of the export. A node has the trunk of its layers (attention, routers,
// shared experts, dense layers; the tables with the first layer, the head with the last one) and
// the shards of its experts.
#pragma once

#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "frontends/jobs/split/split_options.h"
#include "ir/base/diagnostics.h"
#include "ir/experts/expert_sets.h"

namespace moec {

struct ExportNode {
  std::string name;
  ExpertSets experts;  // of every MoE layer that it holds
  Manifest manifest;
  std::vector<manifest::FileRef> trunk, of_experts;
  uint64_t manifest_bytes = 0;  // of its own two files

  uint64_t expert_bytes() const;
  // All files of the node.
  uint64_t bytes() const;
};

// Errors:
//   split.shards      a shard has experts that the node needs and others that it does not, or
//                     layers of two stages; or it adds more to its layer than experts
//   split.no_experts  the export has no experts to choose from
//   split.stages      the stages do not end with the model's last layer
//   those of asked_nodes(), check_enough() and check_manifest()
Result<std::vector<ExportNode>> export_nodes(const SplitOptions& options, const Manifest& whole);

}  // namespace moec
