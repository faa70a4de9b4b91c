// Nodes that the user requests, for splits of GGUF models and of exports.
#pragma once

#include <cstdint>
#include <vector>

#include "frontends/jobs/split/split_options.h"
#include "ir/base/diagnostics.h"
#include "ir/experts/expert_groups.h"

namespace moec {

// Layers [first, end).
struct LayerSpan {
  int64_t first = 0, end = 0;
  bool operator==(const LayerSpan&) const = default;
};

// Each group is one node, or one node per stage if there are several stages.
struct RequestedNodes {
  std::vector<ExpertGroup> groups;
  std::vector<LayerSpan> stages;  // empty: one stage, the whole model
};

// Errors:
//   split.selection   not exactly one of place_file, groups and expert_list is given, or there are
//                     more groups than experts
//   split.name        a node's name is not a valid folder name
//   groups.*, experts.*  those of ir/experts; groups.bad_value for stages that are not contiguous
//   experts.uncovered unless allow_uncovered is set or expert_list is given
Result<RequestedNodes> requested_nodes(const SplitOptions& options, const ExpertGrid& grid);

}  // namespace moec
