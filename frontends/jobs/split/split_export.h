// Cuts an export of moec into folders of nodes, which share its files by hard links: no graph and
// no weight is written again.
#pragma once

#include <string>

#include "frontends/jobs/split/export_split_report.h"
#include "frontends/jobs/split/split_options.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Whether the path is an exported folder, which split_export() takes.
bool is_export(const std::string& path);

// Plans the split and, unless it is a dry run, writes it. Nothing is written before all nodes are
// known to be good. Errors: split.out_has_source (one of the two folders lies in the other),
// split.source_changed (a file has another
// size than its manifest says), those of read_manifest(), require_graphs(), export_nodes(),
// create_folder(), FolderLock, make_room() and OutputFile; kSplitInterrupted.
//
// Notes: split.not_renormalised (routing weights of the model are shares of all experts),
// split.no_correction (a profile, which no node needs), split.copied (no hard links).
Result<ExportSplit> split_export(const SplitOptions& options);

}  // namespace moec
