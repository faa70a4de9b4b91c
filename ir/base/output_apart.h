// Prevents a command from overwriting its inputs.
#pragma once

#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"

namespace moec {

// Checks that the file `out`, the value of `flag`, is neither `source` nor inside the folder
// `source`. Neither path needs to exist. Error output.in_source.
Status check_apart_from(const std::string& source, const std::string& out, const std::string& flag);

// A file that a command writes in addition to its printed output.
struct UserOutput {
  std::string path;
  std::string flag;    // the option that sets `path`
  bool force = false;  // replace an existing regular file
};

// Checks that the file may be written: it passes check_apart_from(), is not a link, and either does
// not exist or may be replaced. Accepts devices, pipes and an empty path. Errors: output.in_source,
// output.link, output.exists.
Status check_user_output(const UserOutput& out, const std::string& source);

// Removes the temporary files of writers of `path` that were killed: PATH.N`ending`, where no
// process has the id N. Ignores files that cannot be removed.
void remove_abandoned(const std::string& path, std::string_view ending);

}  // namespace moec
