// The output folder: what may be in it, and what is removed from it.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

// Names of what an export writes beside manifest.json, manifest.bin and report.json.
struct OutNames {
  std::string embedding = "embed.bin", rope = "rope.bin";
  std::string stem_prefix;   // before each shard's path: "zaya_ane/"; may be empty
  std::string runtime_meta;  // the ane-book's manifest; empty: none is written
  std::vector<std::string> top_level() const;
};

// Creates the folder where there is none. Errors: export.out_not_folder, export.no_permission.
Status create_folder(const std::string& folder);

// Whether there is any file in it, be it moec's or not, besides what an export writes before its
// journal. Error export.no_permission.
Result<bool> holds_files(const std::string& folder);

// Removes what exports wrote there and did not finish or what is to be replaced, the manifest
// first: files and packages under the names that exports give, and what the manifest there says was
// carried along, but not what is in `kept` (paths relative to the folder). All other files stay, in
// folders of shards too. `suffixes` are the endings that any format gives to a shard's files and
// packages (".onnx"). Error export.no_permission.
Status remove_exports(const std::string& folder, const OutNames& names,
                      std::span<const std::string_view> suffixes,
                      const std::set<std::string>& kept);

}  // namespace moec
