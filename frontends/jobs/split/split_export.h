// Cuts an export of moec into folders of nodes, which share its files by hard links: no graph and
// no weight is written again.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "frontends/jobs/split/split_options.h"
#include "ir/base/diagnostics.h"
#include "ir/experts/expert_sets.h"

namespace moec {

// The nodes of an export of moec: of each the manifest, which names the shards that it holds, and
// the files, which are those of the export. A node has the trunk of its layers (attention, routers,
// shared experts, dense layers; the tables with the first layer, the head with the last one) and
// the shards of its experts.

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
//   those of requested_nodes(), check_enough() and check_manifest()
Result<std::vector<ExportNode>> export_nodes(const SplitOptions& options, const Manifest& whole);

struct ExportSplit {
  std::string source, out, family;
  int64_t experts = 0;  // of each layer of the export
  std::vector<ExportNode> nodes;
  bool dry_run = false;
  bool linked = true;  // false: the file system has no hard links between the folders: copies
  Diagnostics notes;

  // The files of all trunks, each once.
  uint64_t trunk_bytes() const;
  // The trunk once, the experts of each node, and the manifests of each.
  uint64_t unique_bytes() const;
};

// Whether the path is an exported folder, which split_export() takes.
bool is_export(const std::string& path);

// Plans the split and, unless it is a dry run, writes it. Nothing is written before all nodes are
// known to be good. Errors: split.out_has_source (one of the two folders lies in the other),
// split.source_changed (a file has another
// size than its manifest says), those of read_manifest(), require_graphs(), export_nodes(),
// create_folder(), FolderLock, make_room() and OutputFile; kSplitInterrupted.
//
// Notes: split.not_renormalised (routing weights of the model are shares of all experts),
// split.no_correction (a profile, which no node needs), split.copied (no hard links).
Result<ExportSplit> split_export(const SplitOptions& options);

// The source, the bytes of the trunk and of all that the nodes hold, and of each node its layers,
// experts and files with their bytes and digests.
nlohmann::ordered_json split_json(const ExportSplit& split, double seconds);

// The text of split.json: the same of the nodes, and whether all files are there.
std::string export_index_text(const ExportSplit& split, bool finished);

}  // namespace moec
