// The names of several targets of one export.
#pragma once

#include <span>

#include "ir/base/diagnostics.h"
#include "ir/target/target.h"

namespace moec {

// Several targets each get a folder of their name, so names must be distinct and usable. Error
// export.flags.
Status check_target_names(std::span<const Target> targets);

}  // namespace moec
