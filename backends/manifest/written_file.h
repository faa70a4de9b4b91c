// Creates the manifest's descriptions of written files.
#pragma once

#include <string>
#include <string_view>

#include "backends/files/output_file.h"
#include "backends/manifest/manifest.h"

namespace moec::manifest {

// `path` is relative to the manifest's folder. Call after sync() or close().
FileRef describe_file(std::string path, const OutputFile& file);

// Writes a small file like write_file(). Returns its description, with a SHA-256 if `sha256`.
// Errors: those of OutputFile.
Result<FileRef> write_listed_file(const std::string& folder, const std::string& path,
                                  std::string_view bytes, bool sha256);

}  // namespace moec::manifest
