#include "frontends/jobs/compare/read_groups.h"

#include <fmt/format.h>

#include "ir/base/regular_file.h"

namespace moec {

Result<std::vector<ExpertGroup>> read_expert_groups(const std::string& path,
                                                    const ExpertGrid& grid) {
  MOEC_ASSIGN(const std::string text, read_user_text(path, "groups.file"));
  MOEC_ASSIGN(std::vector<ExpertGroup> groups, parse_expert_groups(text, path, grid));
  // A group with fewer experts than top-k cannot serve a token.
  for (const ExpertGroup& group : groups)
    MOEC_TRY(check_enough(group.experts, grid, fmt::format("{}: group {}", path, group.name)));
  return groups;
}

}  // namespace moec
