// Checks the folder of a split of an export: each node as check_folder() does, and that the nodes
// together hold every layer and every expert.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "frontends/jobs/check/check_folder.h"
#include "ir/base/diagnostics.h"

namespace moec {

struct CheckedNode {
  std::string folder;
  std::unique_ptr<CheckReport> report;
};

struct SplitCheck {
  std::vector<CheckedNode> nodes;
  Diagnostics findings;  // of the nodes together

  bool passed() const;
};

// Whether the folder is one of moec split, whatever was split.
bool is_split_folder(const std::string& folder);

// Errors: check.no_nodes (no node is an export), those of check_folder(). Findings:
//   check.split_unfinished  split.json is not that of a finished split
//   check.other_model       nodes of different models, or a folder that is no node
//   check.uncovered         a layer, or an expert of one, that is on no node
Result<SplitCheck> check_split(const std::string& folder, const CheckOptions& options);

}  // namespace moec
