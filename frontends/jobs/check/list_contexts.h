// Compiled files of a vendor's NPU as a part of an export.
#pragma once

#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

// What a script of `moec confirm --context-binaries DIR` writes last into DIR: the compiled files
// with their digests, and the files of the export that they were made of.
inline constexpr const char* kContextList = "contexts.json";

// Puts contexts.json and the files that it names among the side files of the manifest, with their
// digests, in the place of those that were listed below `contexts` before. Does nothing where the
// folder `contexts` is outside of the export or has no contexts.json. Errors: confirm.contexts for
// a list that names no files of the folder, or whose digests are not theirs; those of read_manifest
// and write_manifest.
Status list_contexts(const std::string& folder, const std::string& contexts);

// Error confirm.contexts where `contexts` is the export's own folder: its files would be
// indistinguishable from those of the export.
Status check_context_folder(const std::string& folder, const std::string& contexts);

}  // namespace moec
