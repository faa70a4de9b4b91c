// The output folder of a split: one folder per node, and the index split.json, which lists all
// files. The index is written first, with "finished": false, and rewritten when all files are
// complete.
#pragma once

#include <set>
#include <string>

#include "backends/output/out_folder.h"
#include "ir/base/diagnostics.h"

namespace moec {

inline constexpr const char* kSplitIndex = "split.json";

struct SplitIndex {
  bool finished = false;
  OwnFiles files;  // relative to the folder, including the index
};

// Errors: split_index.syntax, split_index.duplicate_key, split_index.missing_field,
// split_index.bad_value, those of RegularFile.
Result<SplitIndex> read_split_index(const std::string& folder);

// Removes an earlier split from the locked folder if it is unfinished or `force` is set. Its index
// is marked as not finished first. Errors: split.out_not_empty (a finished split without `force`,
// or files that no split wrote), output.changed (a finished split with modified files),
// export.foreign_file, those of read_split_index() and remove_files().
Status make_room(const std::string& folder, const OutFiles& writes, bool force);

}  // namespace moec
