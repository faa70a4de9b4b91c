// The output folder: what may be in it, and what --force removes.
#pragma once

#include <string>
#include <vector>

#include "ir/diagnostics.h"

namespace moec {

// Names of what an export writes beside manifest.json, manifest.bin and report.json.
struct OutNames {
  std::string embedding = "embed.bin", rope = "rope.bin";
  std::string stem_prefix;   // before each shard's path: "zaya_ane/"; may be empty
  std::string runtime_meta;  // the ane-book's manifest; empty: none is written
  std::vector<std::string> top_level() const;
};

// Makes the folder ready for an export: creates it, or checks that it is empty. With `force` the
// files of an earlier export are removed, the manifest first; files that moec did not write stay.
// Errors: export.out_not_empty, export.out_not_folder, export.no_permission.
Status prepare_folder(const std::string& folder, const OutNames& names, bool force);

}  // namespace moec
