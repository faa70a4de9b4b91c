// Cuts a GGUF model into one package per node: some experts plus the shared trunk (README.md).
#pragma once

#include "frontends/jobs/split/split_options.h"
#include "frontends/jobs/split/split_report.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Plans the split and, unless it is a dry run, writes it. Validates the whole plan before writing.
// Errors:
//   split.source          not a GGUF file
//   split.update          SplitOptions::update is set
//   split.out_has_source  a file of the source lies in the output folder
//   those of read_moe_source(), choose_nodes(), read_expert_profile(), check_profile(),
//   kept_shares(), plan_split(), create_folder(), FolderLock, make_room() and write_split()
//
// Notes and warnings: split.inflated, split.compensated, split.unknown_routing, split.no_correction
// (a profile was given but is not needed), split.layers_behind, split.groups, split.trunk_copied.
Result<SplitReport> split_model(const SplitOptions& options);

}  // namespace moec
