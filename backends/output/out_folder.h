// The output folder of an export: its file names, and the removal of earlier exports from it.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

// The names that an export may choose. manifest.json, manifest.bin and report.json are fixed.
struct OutNames {
  std::string embedding = "embed.bin", rope = "rope.bin";
  std::string stem_prefix;   // in front of each shard's path: "zaya_ane/"; may be empty
  std::string runtime_meta;  // manifest for the runtimes of the ane-book; empty: not written

  // Those of files at the top of the folder.
  std::vector<std::string> top_level() const;
};

// Creates the folder, and its parents, unless it exists. Errors: export.out_not_folder,
// export.no_permission.
Status create_folder(const std::string& folder);

// Whether the folder or a folder below it has any file, apart from what an export writes before its
// journal: the lock file and the journal's temporary file. Error export.no_permission.
Result<bool> holds_files(const std::string& folder);

// Removes the files and packages of earlier exports, finished or not: those with names that exports
// give, and the carried files (carried_files.h) that the folder's manifest lists. Leaves the files
// in `kept` (paths relative to the folder) and all files that no export writes, also in folders of
// shards. `suffixes` are the endings that any format gives to a shard's files and packages
// (".onnx"). The manifest is removed first, so that an interrupted removal does not leave a folder
// that looks finished. Error export.no_permission.
Status remove_exports(const std::string& folder, const OutNames& names,
                      std::span<const std::string_view> suffixes,
                      const std::set<std::string>& kept);

}  // namespace moec
