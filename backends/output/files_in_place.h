// Checks an export's files before its manifest is written.
#pragma once

#include <string>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Checks that every file of the manifest is in the folder: a regular file of the recorded size, not
// reached through a link. Reads no contents; `moec check` compares digests. Error emit.file_gone
// for the first file that fails.
Status check_files_in_place(const Manifest& manifest, const std::string& folder);

// Returns the bytes that the embedding and the files of all shards have on the disk. Hard links,
// such as the weight file of several packages, count once.
uint64_t bytes_on_disk(const Manifest& manifest, const std::string& folder);

}  // namespace moec
