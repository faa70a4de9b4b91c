// What a written file is in a manifest.
#pragma once

#include <string>
#include <string_view>

#include "backends/files/output_file.h"
#include "backends/manifest/manifest.h"

namespace moec::manifest {

// `path` is the file's, relative to the manifest's folder. After sync() or close().
FileRef describe_file(std::string path, const OutputFile& file);

// A small file in one go, as write_file() does; with `sha256` that digest as well. Errors: those of
// OutputFile.
Result<FileRef> write_listed_file(const std::string& folder, const std::string& path,
                                  std::string_view bytes, bool sha256);

}  // namespace moec::manifest
