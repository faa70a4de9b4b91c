// Which nodes the user asked for, whatever is split.
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

// Each group is a node, or a node in each stage where there are several.
struct RequestedNodes {
  std::vector<ExpertGroup> groups;
  std::vector<LayerSpan> stages;  // empty: one stage, the whole model
};

// Errors:
//   split.selection   not exactly one of place_file, groups and expert_list is given, or more
//                     groups than experts
//   split.name        a node's name cannot be that of a folder
//   groups.*, experts.* as in ir/plan, experts.uncovered unless it is allowed or only one list of
//                     experts was given; groups.bad_value for stages that do not follow one another
Result<RequestedNodes> requested_nodes(const SplitOptions& options, const ExpertGrid& grid);

}  // namespace moec
