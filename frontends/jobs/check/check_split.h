// Checks the folder of a split: each node as check_folder() does, or as check_gguf.h says, and that
// the nodes together hold every layer and every expert.
#pragma once

#include <string>

#include "frontends/jobs/check/check_report.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Whether the folder is one of moec split, whatever was split.
bool is_split_folder(const std::string& folder);

// Errors: check.no_nodes (no node is an export), those of check_folder(). Findings of a split of an
// export (check_gguf.h lists the others):
//   check.split_unfinished  split.json is not that of a finished split
//   check.other_model       nodes of different models, or a folder that is no node
//   check.uncovered         a layer, or an expert of one, that is on no node
Result<SplitCheck> check_split(const std::string& folder, const CheckOptions& options);

}  // namespace moec
