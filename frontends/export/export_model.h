// Entry points of the export driver, which turns a checkpoint into a folder of checked static
// shards with a manifest.
#pragma once

#include <span>
#include <vector>

#include "frontends/export/export_summary.h"
#include "frontends/export/options/export_options.h"

namespace moec {

// Exports one target into options.output.folder.
//
// Each of `jobs` threads compiles, writes and frees one shard at a time. The bytes of the output
// depend neither on the number of jobs nor on the memory. manifest.json is written last, so a
// folder without it does not contain a finished export.
//
// The folder must be empty, or contain an unfinished export of the same inputs and options
// (backends/output/journal.h). In the latter case, complete parts that match their digests are
// kept, and the result has the same bytes as an uninterrupted export. The folder is locked
// (backends/output/folder_lock.h) until the function returns.
//
// Errors: those of every stage; export.out_not_empty, export.differs, export.locked,
// export.interrupted. If several shards fail, the first in plan order is reported. Failures after
// the journal is open include the note export.unfinished, which states how many parts are kept.
Result<ExportSummary> export_model(const ExportOptions& options);

// Exports one checkpoint for several targets, each into its own folder with the same bytes that
// export_model() would write. The folders share a parent folder, which is locked as well and must
// not contain an export itself (export.out_not_empty). Summaries and errors are in target order.
//
// Weights with the same bytes in several targets are read from the checkpoint once, and counted in
// the summary of the target that read them. Source, resources, callbacks and force must be equal
// for all targets; the memory is for all targets together. If one target fails, the whole export
// fails: no folder is finished before every folder is complete.
Result<std::vector<ExportSummary>> export_targets(std::span<const ExportOptions> targets);

}  // namespace moec
