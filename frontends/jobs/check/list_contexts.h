// Adds compiled files for a vendor's NPU to an export.
#pragma once

#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

// The list that `moec confirm --context-binaries DIR` writes last into DIR: the compiled files with
// their digests, and the files of the export from which they were compiled.
inline constexpr const char* kContextList = "contexts.json";

// Adds contexts.json and its files to the manifest's side files, with digests, and removes earlier
// entries below `contexts`. Does nothing if `contexts` is outside the export or has no
// contexts.json. Errors: confirm.contexts (a listed file is missing or its digest differs); those
// of read_manifest() and write_manifest().
Status list_contexts(const std::string& folder, const std::string& contexts);

// Error confirm.contexts if `contexts` is the export's folder itself, where compiled files could
// not be distinguished from those of the export.
Status check_context_folder(const std::string& folder, const std::string& contexts);

}  // namespace moec
