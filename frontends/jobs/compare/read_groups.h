// Reads groups of experts for an export.
#pragma once

#include <string>
#include <vector>

#include "ir/experts/expert_groups.h"

namespace moec {

// Reads a file of groups. Errors: groups.file, those of parse_expert_groups(), and those of
// check_enough() for each group.
Result<std::vector<ExpertGroup>> read_expert_groups(const std::string& path,
                                                    const ExpertGrid& grid);

}  // namespace moec
