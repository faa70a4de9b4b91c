// Describes written files for a manifest.
#pragma once

#include <string>
#include <string_view>

#include "backends/files/output_file.h"
#include "backends/manifest/manifest.h"

namespace moec::manifest {

// `path` is relative to the manifest's folder. Call it after sync() or close().
FileRef describe_file(std::string path, const OutputFile& file);

// Writes a small file at once, as write_file() does, and returns its description, with a SHA-256 if
// `sha256`. Errors: those of OutputFile.
Result<FileRef> write_listed_file(const std::string& folder, const std::string& path,
                                  std::string_view bytes, bool sha256);

}  // namespace moec::manifest
