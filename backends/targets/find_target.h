// The target that --target names.
#pragma once

#include <string>

#include "ir/target/target.h"

namespace moec {

// The name is that of a file: it ends with ".json".
bool is_target_file(const std::string& name);

// A target that is compiled in, or one of the user's own: a file as backends/targets/load_target.h
// describes. Errors: target.*, file.*.
Result<Target> find_target(const std::string& name);

}  // namespace moec
