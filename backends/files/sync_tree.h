// Flushes a finished folder to the disk. Errors: those of write_error.h. A file system that cannot
// flush folders is not an error.
#pragma once

#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

// Flushes each file and folder in `folder`, and the folder itself, to the device. In parallel,
// because a file system with a journal then commits them together.
Status sync_tree(const std::string& folder);

// Flushes only the names in the folder, so that renames and removals survive a power cut.
Status sync_folder(const std::string& folder);

}  // namespace moec
