// Lists for the journal everything that the bytes of an export depend on.
#pragma once

#include "backends/output/journal_text.h"
#include "frontends/export/options/export_options.h"
#include "ir/model/plan.h"

namespace moec {

// Returns the names and values of the inputs:
//   "moec"                  the version
//   "option --tokens", …    each option that affects the output, with defaults filled in
//   "file of --loads", …    digests of the files that options name
//   "file config.json", …   the checkpoint's text files by digest; each safetensors file by size,
//                           times of change, inode and digest of its header
// Excludes the number of jobs and the memory. Errors: those of RegularFile and digest_file().
Result<ExportInputs> export_inputs(const ExportOptions& options, const Plan& plan);

// Adds the inputs of the source: "file config.json" and the weight files.
Status add_source_files(const SourceOptions& source, const ModelConfig& model,
                        const WeightTable& weights, ExportInputs& inputs);

}  // namespace moec
