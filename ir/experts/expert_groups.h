// Named sets of experts in a JSON file, such as the experts of each node in a cluster:
//
//   {"groups": [{"name": "node0", "experts": "L0:0-7;L1:1,3,5"},
//               {"name": "node1", "experts": "L0:8-15;L1:0,2,4,6-15"}]}
//
// `experts` has the syntax of parse_expert_sets(). Other top-level fields are ignored.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/experts/expert_sets.h"

namespace moec {

struct ExpertGroup {
  std::string name;
  ExpertSets experts;
  bool operator==(const ExpertGroup&) const = default;
};

// Errors: groups.syntax, groups.duplicate_key, groups.missing_field, groups.unknown_field,
// groups.bad_value (no group, an empty name, a name twice), each with file and line; those of
// parse_expert_sets() with the file.
Result<std::vector<ExpertGroup>> parse_expert_groups(std::string_view text, const std::string& file,
                                                     const ExpertGrid& grid);

// Partitions the experts of each layer by the groups that contain them, so that each group is a
// union of sets. Experts without a group form a set, too. Sets are ordered by their first expert.
ExpertPartition parts_of_groups(const std::vector<ExpertGroup>& groups, const ExpertGrid& grid);

// Reads a file of groups and returns parts_of_groups(). Experts without a group are allowed.
// Errors: groups.file, and those of parse_expert_groups().
Result<ExpertPartition> read_expert_parts(const std::string& file, const ExpertGrid& grid);

// "L0: 0 2 | 1 3", one line per layer.
std::string to_string(const ExpertPartition& parts);

// Checks that each expert of each layer is in a group. Error experts.uncovered names the first
// layer with an uncovered expert. `what` names the groups in the message.
Status check_covered(const std::vector<ExpertGroup>& groups, const ExpertGrid& grid,
                     const std::string& what);

}  // namespace moec
