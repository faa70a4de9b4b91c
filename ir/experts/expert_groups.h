// Named sets of experts in a JSON file, such as those of the nodes of a cluster:
//
//   {"groups": [{"name": "node0", "experts": "L0:0-7;L1:1,3,5"},
//               {"name": "node1", "experts": "L0:8-15;L1:0,2,4,6-15"}]}
//
// `experts` is read by parse_expert_sets(). Other fields of the file belong to other readers.
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
// groups.bad_value (no group at all, an empty name, a name twice), each with file and line; those
// of parse_expert_sets() with the file.
Result<std::vector<ExpertGroup>> parse_expert_groups(std::string_view text, const std::string& file,
                                                     const ExpertGrid& grid);

// The experts of each layer that are in the same groups, the sets in the order of their first
// experts: a shard of such a set is needed as a whole wherever it is needed. Experts in no group
// are a set, too.
ExpertPartition parts_of_groups(const std::vector<ExpertGroup>& groups, const ExpertGrid& grid);

// The same of a file of groups, of which not each expert must be in one. Errors: groups.file, those
// of parse_expert_groups().
Result<ExpertPartition> read_expert_parts(const std::string& file, const ExpertGrid& grid);

// "L0: 0 2 | 1 3", a line for each layer.
std::string to_string(const ExpertPartition& parts);

// Checks that each expert of each layer is in a group. Error experts.uncovered, for the first layer
// that has experts in no group.
Status check_covered(const std::vector<ExpertGroup>& groups, const ExpertGrid& grid,
                     const std::string& what);

}  // namespace moec
