// Files that belong together: a folder holds all of one run, or says that it does not.
#pragma once

#include <string>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

struct NamedText {
  std::string name;  // in the folder
  std::string text;
};

// Writes all files, complete and flushed, before the first takes its name. The last one says that
// the set is whole: it is removed before the others take their names, and takes its own after them.
// The folder is locked meanwhile. Errors: export.locked, those of create_folder() and OutputFile.
Status write_set(const std::string& folder, const std::vector<NamedText>& files);

}  // namespace moec
