// The entry points of the export driver: a checkpoint becomes a folder of checked static shards
// with a manifest.
#pragma once

#include <span>
#include <vector>

#include "frontends/export/export_summary.h"
#include "frontends/export/options/export_options.h"

namespace moec {

// Exports one target into options.output.folder.
//
// Each of `jobs` threads compiles, writes and frees one shard at a time. The bytes of the output
// depend neither on the number of jobs nor on the memory. manifest.json is written last: a folder
// without it holds no finished export.
//
// The folder must be empty, or hold an unfinished export of the same inputs and options
// (backends/output/journal.h). In the latter case, parts that are complete and match their digests
// are kept, and the result has the same bytes as an undisturbed export. The folder is locked
// (backends/output/folder_lock.h) until the function returns.
//
// Errors: those of every stage; of several failing shards, the first in plan order.
// export.out_not_empty, export.differs, export.locked, export.interrupted. Once the journal is
// open, a note export.unfinished says how much of the work is kept.
Result<ExportSummary> export_model(const ExportOptions& options);

// Exports several targets of one checkpoint, each into a folder of its own with the same bytes that
// export_model() writes there. The folders share a parent folder, which must not hold an export
// itself (export.out_not_empty) and is locked as well. Summaries and errors are in the order of the
// targets.
//
// Weights that have the same bytes in several targets are read from the checkpoint once, and
// counted in the summary of the target that read them. Source, resources, callbacks and force must
// be equal for all targets; the memory is for all targets together. One failing target ends the
// whole export, and no folder is finished before every folder is.
Result<std::vector<ExportSummary>> export_targets(std::span<const ExportOptions> targets);

}  // namespace moec
