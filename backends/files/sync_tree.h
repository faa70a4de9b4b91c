// Brings a finished folder to the disk. Errors: those of write_error.h; a file system that cannot
// flush folders does what it can.
#pragma once

#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

// Flushes each file and folder in `folder`, and itself, to the device: side by side, for a file
// system with a journal brings them there in one go.
Status sync_tree(const std::string& folder);

// The names in the folder alone: what was renamed or removed there stays so through a power cut.
Status sync_folder(const std::string& folder);

}  // namespace moec
