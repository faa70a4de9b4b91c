// The last look at an export's files before its manifest is written.
#pragma once

#include <string>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Every file that the manifest names is in the folder, as a regular file of the recorded size and
// below no link. Reads no bytes: moec check compares digests. Error emit.file_gone for the first
// one that is not.
Status check_files_in_place(const Manifest& manifest, const std::string& folder);

}  // namespace moec
