// The output folder: what may be in it, and what --force removes.
#pragma once

#include <string>

#include "ir/diagnostics.h"

namespace moec {

// Makes the folder ready for an export: creates it, or checks that it is empty. With `force` the
// files of an earlier export are removed, the manifest first; files that moec did not write stay.
// Errors: export.out_not_empty, export.out_not_folder, export.no_permission.
Status prepare_folder(const std::string& folder, bool force);

}  // namespace moec
