// Brings a finished folder to the disk.
#pragma once

#include <string>

#include "ir/diagnostics.h"

namespace moec {

// Flushes each file and folder in `folder`, and itself, to the device: side by side, for a file
// system with a journal brings them there in one go. Errors: those of write_error.h.
Status sync_tree(const std::string& folder);

}  // namespace moec
