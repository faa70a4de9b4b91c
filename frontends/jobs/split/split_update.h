// An earlier split of an export, whose files a new split links instead of copying or linking those
// of the export. On the machine of a node, the earlier files are local, while the export may be on
// another file system.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backends/files/folder.h"
#include "frontends/jobs/split/export_nodes.h"
#include "ir/base/diagnostics.h"

namespace moec {

// The change of a node.
struct NodeUpdate {
  std::string name;
  bool is_new = false;      // the earlier split has no node of this name
  bool changed = false;     // the manifest differs; otherwise, its server needs no reload
  ExpertSets gained, lost;  // only layers that change
};

struct SplitUpdate {
  std::string folder;  // of the earlier split
  std::vector<NodeUpdate> nodes;
  std::vector<std::string> removed;  // nodes of the earlier split without a successor
  // Files of all nodes without their manifests: links to files of the earlier split, links to files
  // of the export, and copies. A dry run counts files without reading them.
  int64_t kept = 0, linked = 0, copied = 0;
  uint64_t bytes_written = 0;  // of copies and manifests
};

class EarlierSplit {
 public:
  // Reads the manifests of the nodes in `folder`, which needs no index and may lack nodes. Error
  // split.update: there are no nodes, or they are of another model than `whole`.
  static Result<EarlierSplit> open(const std::string& folder, const Manifest& whole);

  // Describes the change to `nodes`, and counts the files to write if `source` is the export.
  SplitUpdate plan(const std::vector<ExportNode>& nodes, const Manifest& whole) const;

  // Returns a file with the contents of `file`; absent if there is none. Reads the file, unless it
  // is the same file as that of the export in `source`. Adds the note split.update_changed to
  // `notes` for each file that differs from its manifest.
  std::optional<OutputPath> find(const manifest::FileRef& file, const std::string& source,
                                 Diagnostics& notes);

 private:
  std::string folder_;
  std::map<std::string, Manifest> nodes_;  // by folder name
  // Digest → paths below `folder_`. find() removes those that differ, and those after a match.
  std::map<std::string, std::vector<std::string>> files_;
  std::set<std::string> verified_;  // digests whose first path was compared
};

nlohmann::ordered_json update_json(const SplitUpdate& update);

}  // namespace moec
