// The target that --target names.
#pragma once

#include "ir/target.h"

namespace moec {

// A target that is compiled in, or one of the user's own where the name ends with ".json": a file
// as backends/targets/load_target.h describes. Errors: target.*, file.*.
Result<Target> find_target(const std::string& name);

}  // namespace moec
