#include "frontends/export/target_names.h"

#include <fmt/format.h>

#include <set>
#include <string>

namespace moec {

static bool is_folder_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos;
}

Status check_target_names(std::span<const Target> targets) {
  std::set<std::string> names;
  for (const Target& target : targets) {
    if (!is_folder_name(target.name))
      return fail("export.flags",
                  fmt::format("the target name \"{}\" cannot be the name of a folder", target.name),
                  "rename the target in its file, or export for this target alone");
    if (!names.insert(target.name).second)
      return fail("export.flags", fmt::format("there are two targets named {}", target.name),
                  "rename one of them in its file, or export for each alone");
  }
  return {};
}

}  // namespace moec
