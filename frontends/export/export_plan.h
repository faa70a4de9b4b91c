// What an export is before its first byte is written.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "backends/output/journal_text.h"
#include "backends/output/out_folder.h"
#include "backends/weights/weight_reader.h"
#include "frontends/export/export_model.h"

namespace moec {

struct PlannedExport {
  Plan plan;
  std::vector<ShardCut> cuts;
  WeightReader reader;
  OutNames names;
  Manifest manifest;           // without what is known when files are written
  uint64_t payload_bytes = 0;  // in the shards
  ExportFacts facts;
  Diagnostics notes;
};

// Everything that can be found wrong before the first byte is written is found here; of the payload
// only the weights are read that check_finite_weights() looks at, with `finite`. The memory is
// shared with the other ones of `targets`. Errors: export.out_is_source, those of the plan, of its
// checks, of the checkpoint's files and of the budget.
Result<PlannedExport> plan_export(const ExportOptions& options, size_t targets,
                                  std::set<std::string>& finite);

}  // namespace moec
