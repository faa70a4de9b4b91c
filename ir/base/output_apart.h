// Keeps what a command writes away from what it reads.
#pragma once

#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

// Checks that the file `out`, which `flag` names, is not `source` and does not lie in it, where
// that is a folder. Either may not exist. Error output.in_source.
Status check_apart_from(const std::string& source, const std::string& out, const std::string& flag);

}  // namespace moec
