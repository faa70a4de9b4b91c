// The names of all files that an export may write in its folder.
#pragma once

#include "backends/output/out_folder.h"
#include "frontends/export/export_options.h"
#include "ir/model/plan.h"

namespace moec {

// Manifest, report, tables, the files of every shard, and those of kCarriedFiles that the
// checkpoint has.
OutFiles files_to_write(const ExportOptions& options, const Plan& plan, const OutNames& names);

}  // namespace moec
