// Keeps what a command writes away from what it reads.
#pragma once

#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"

namespace moec {

// Checks that the file `out`, which `flag` names, is not `source` and does not lie in it, where
// that is a folder. Either may not exist. Error output.in_source.
Status check_apart_from(const std::string& source, const std::string& out, const std::string& flag);

// A file that a command writes besides what it prints.
struct UserOutput {
  std::string path;
  std::string flag;    // that names it
  bool force = false;  // a regular file may be replaced
};

// Checks that the file may be written: it lies apart from `source`, is not a link, and is new or
// may be replaced. Devices and pipes are written to. An empty path passes. Errors:
// output.in_source, output.link, output.exists.
Status check_user_output(const UserOutput& out, const std::string& source);

// Removes what writers of `path` that were killed have left: PATH.N`ending`, where N is the number
// of no process. Says nothing of what cannot be removed.
void remove_abandoned(const std::string& path, std::string_view ending);

}  // namespace moec
