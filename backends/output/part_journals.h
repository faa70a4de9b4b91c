// The journals of a divided export (part_folders.h). Each process writes its share of the tables
// and shards; the process that joins them completes the export.
#pragma once

#include <string>

#include "backends/output/journal.h"

namespace moec {

// True if `out` contains a share of a divided export, complete or not.
bool has_part_journals(const std::string& out);

// Checks that every share has these inputs. Errors: export.differs, those of read_journal().
Status check_part_journals(const std::string& out, const ExportInputs& inputs);

// Links the files of all complete tables and shards that `journal` does not list into `out`,
// flushes them to disk, then adds them to `journal`, the one of `out`. No share may be running.
// Errors: those of read_journal(), link_from_part(), Folder and Journal::add().
Status adopt_part_journals(const std::string& out, Journal& journal);

// Removes the files that shares wrote, their journals, and the folders that are then empty. Other
// files stay. Errors: those of remove_files() and Folder.
Status remove_part_journals(const std::string& out);

}  // namespace moec
