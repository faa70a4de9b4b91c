// Cuts an export of moec into one folder per node. The folders share the export's files by hard
// links; no graph or weight is rewritten.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "frontends/jobs/split/export_nodes.h"
#include "frontends/jobs/split/split_options.h"
#include "frontends/jobs/split/split_update.h"
#include "ir/base/diagnostics.h"

namespace moec {

struct ExportSplit {
  std::string source, out, family;
  int64_t experts = 0;  // of each layer of the export
  std::vector<ExportNode> nodes;
  bool dry_run = false;
  bool linked = true;  // false: files were copied, because the file system has no hard links
  std::optional<SplitUpdate> update;  // with SplitOptions::update
  Diagnostics notes;

  // Bytes of the files of all trunks, each file counted once.
  uint64_t trunk_bytes() const;
  // Bytes of the trunk once, plus experts and manifests of every node.
  uint64_t unique_bytes() const;
};

// True if the path is a folder that moec exported.
bool is_export(const std::string& path);

// Plans the split and, unless it is a dry run, writes it. Validates all nodes before writing.
// Errors: split.out_has_source (one folder contains the other, also for the earlier split),
// split.source_changed (a file's size differs from the manifest), those of read_manifest(),
// require_graphs(), export_nodes(), EarlierSplit, create_folder(), FolderLock, make_room() and
// OutputFile; kSplitInterrupted.
//
// Notes:
//   split.not_renormalised  routing weights of the model are shares of all experts
//   split.no_correction     a profile was given, but masked routers need none
//   split.copied            the file system has no hard links
//   split.update_changed    a file of the earlier split differs from its manifest
Result<ExportSplit> split_export(const SplitOptions& options);

// The report as JSON: source, bytes of the trunk and of all nodes, and per node its layers, experts
// and files with bytes and digests.
nlohmann::ordered_json split_json(const ExportSplit& split, double seconds);

// The text of split.json: `finished` and the node data of split_json().
std::string export_index_text(const ExportSplit& split, bool finished);

}  // namespace moec
