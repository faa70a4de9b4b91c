// Flushes a finished folder to disk. Errors: those of write_error.h. File systems that cannot flush
// folders are not an error.
#pragma once

#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

// Flushes `folder` and, recursively, all files and folders in it. Works in parallel, because
// journaling file systems then commit them together.
Status sync_tree(const std::string& folder);

// Flushes only the folder's directory entries, so that renames and removals survive a power
// failure.
Status sync_folder(const std::string& folder);

}  // namespace moec
