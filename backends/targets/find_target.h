// Finds a target by name or file.
#pragma once

#include <string>

#include "ir/target/target.h"

namespace moec {

// True if the name is a file name: it ends with ".json".
bool is_target_file(const std::string& name);

// Returns a built-in target, or reads one from a file of at most 1 MiB
// (backends/targets/load_target.h). Errors: target.*, file.*.
Result<Target> find_target(const std::string& name);

}  // namespace moec
