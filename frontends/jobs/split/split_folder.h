// The output folder of a split: a folder for each node, and the index split.json, which lists the
// files of all. The index is there before any of them, with "finished": false, and is written again
// when all are complete.
#pragma once

#include <set>
#include <string>

#include "backends/output/out_folder.h"
#include "ir/base/diagnostics.h"

namespace moec {

inline constexpr const char* kSplitIndex = "split.json";

struct SplitIndex {
  bool finished = false;
  OwnFiles files;  // relative to the folder, the index included
};

// Errors: split_index.syntax, split_index.duplicate_key, split_index.missing_field,
// split_index.bad_value, those of RegularFile.
Result<SplitIndex> read_split_index(const std::string& folder);

// Makes room in the folder, which is locked: what an earlier split left there is removed where it
// was not finished, or with `force`; meanwhile its index says that it is not finished. Errors:
// split.out_not_empty (a finished split without `force`, or files that no split wrote),
// output.changed (a finished split with files that were changed), export.foreign_file, those of
// read_split_index() and remove_files().
Status make_room(const std::string& folder, const OutFiles& writes, bool force);

}  // namespace moec
