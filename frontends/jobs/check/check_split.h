// Checks the folder of a split: checks each node as in check_folder() or check_gguf.h, and that the
// nodes together contain every layer and every expert.
#pragma once

#include <string>

#include "frontends/jobs/check/check_report.h"
#include "ir/base/diagnostics.h"

namespace moec {

// True if moec split wrote the folder, from an export or a GGUF model.
bool is_split_folder(const std::string& folder);

// Errors: check.no_nodes (no node is an export), those of check_folder(). Findings for a split
// export (see check_gguf.h for GGUF splits):
//   check.split_unfinished  split.json describes an unfinished split
//   check.other_model       nodes of different models, or an export that is not a node
//   check.uncovered         a layer or an expert is on no node
Result<SplitCheck> check_split(const std::string& folder, const CheckOptions& options);

}  // namespace moec
