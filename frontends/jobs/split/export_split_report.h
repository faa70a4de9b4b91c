// What a split of an export has written, or would write.
#pragma once

#include <string>
#include <vector>

#include "frontends/jobs/split/export_nodes.h"
#include "ir/base/diagnostics.h"

namespace moec {

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

}  // namespace moec
