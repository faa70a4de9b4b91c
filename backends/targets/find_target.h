// Finds the target that the user names.
#pragma once

#include <string>

#include "ir/target/target.h"

namespace moec {

// Whether the name is that of a file: it ends with ".json".
bool is_target_file(const std::string& name);

// A compiled-in target, or the user's own, read from a file of at most 1 MiB
// (backends/targets/load_target.h). Errors: target.*, file.*.
Result<Target> find_target(const std::string& name);

}  // namespace moec
