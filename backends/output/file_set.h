// Writes a set of files so that a folder has the complete set of one run, or is recognizably
// incomplete.
#pragma once

#include <string>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

struct NamedText {
  std::string name;  // name in the folder
  std::string text;
};

// Writes and flushes all files under temporary names before renaming any. The last file marks the
// set as complete: an older one is removed before the other files are renamed, and the new one is
// renamed last. Locks the folder. Errors: export.locked, those of create_folder() and OutputFile.
Status write_set(const std::string& folder, const std::vector<NamedText>& files);

}  // namespace moec
