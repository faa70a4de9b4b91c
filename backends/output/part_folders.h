// The folders of a divided export. Each process writes its share of the tables and shards to
// OUT/.parts/I, with a lock and a journal there. The process that joins them links the files into
// OUT and completes the export.
#pragma once

#include <string>

#include "backends/output/journal.h"

namespace moec {

// Returns the folder of share `index`.
std::string part_folder(const std::string& out, int64_t index);

// True if `out` contains a share of a divided export, complete or not.
bool has_part_folders(const std::string& out);

// Checks that every share has these inputs. Errors: export.differs, those of read_journal().
Status check_part_folders(const std::string& out, const ExportInputs& inputs);

// Links the files of all complete tables and shards that `journal` does not list into `out`,
// flushes them to disk, then adds them to `journal`, the one of `out`. No share may be running.
// Errors: export.no_links if the file system does not support hard links, those of read_journal(),
// Folder and Journal::add().
Status adopt_part_folders(const std::string& out, Journal& journal);

// Removes the files that shares wrote, their journals, and the folders that are then empty. Other
// files stay. Errors: those of remove_files() and Folder.
Status remove_part_folders(const std::string& out);

}  // namespace moec
