// Cuts an export of moec into one folder per node. The folders share the export's files by hard
// links; no graph or weight is rewritten.
#pragma once

#include <nlohmann/json_fwd.hpp>
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
  uint64_t manifest_bytes = 0;  // manifest.json and manifest.bin

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

struct ExportSplit {
  std::string source, out, family;
  int64_t experts = 0;  // of each layer of the export
  std::vector<ExportNode> nodes;
  bool dry_run = false;
  bool linked = true;  // false: files were copied, because the file system has no hard links
  Diagnostics notes;

  // Bytes of the files of all trunks, each file counted once.
  uint64_t trunk_bytes() const;
  // Bytes of the trunk once, plus experts and manifests of every node.
  uint64_t unique_bytes() const;
};

// True if the path is a folder that moec exported.
bool is_export(const std::string& path);

// Plans the split and, unless it is a dry run, writes it. Validates all nodes before writing.
// Errors: split.out_has_source (one folder contains the other), split.source_changed (a file's size
// differs from the manifest), those of read_manifest(), require_graphs(), export_nodes(),
// create_folder(), FolderLock, make_room() and OutputFile; kSplitInterrupted.
//
// Notes: split.not_renormalised (routing weights of the model are shares of all experts),
// split.no_correction (a profile was given, but masked routers need none), split.copied (no hard
// links).
Result<ExportSplit> split_export(const SplitOptions& options);

// The report as JSON: source, bytes of the trunk and of all nodes, and per node its layers, experts
// and files with bytes and digests.
nlohmann::ordered_json split_json(const ExportSplit& split, double seconds);

// The text of split.json: `finished` and the node data of split_json().
std::string export_index_text(const ExportSplit& split, bool finished);

}  // namespace moec
