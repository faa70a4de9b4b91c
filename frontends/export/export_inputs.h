// Lists everything that the bytes of an export depend on, for its journal.
#pragma once

#include "backends/output/journal_text.h"
#include "frontends/export/options/export_options.h"
#include "ir/model/plan.h"

namespace moec {

// Names and values of the inputs:
//   "moec"                  the version
//   "option --tokens", …    each option that shapes the output, with defaults filled in
//   "file of --loads", …    digests of the files that options name
//   "file config.json", …   the checkpoint's text files by digest; each safetensors file by size,
//                           times of change, inode and digest of its header
// Jobs and memory are not among them. Errors: those of RegularFile and digest_file().
Result<ExportInputs> export_inputs(const ExportOptions& options, const Plan& plan);

// Adds those of the source: "file config.json" and what follows it above.
Status add_source_files(const SourceOptions& source, const ModelConfig& model,
                        const WeightTable& weights, ExportInputs& inputs);

}  // namespace moec
