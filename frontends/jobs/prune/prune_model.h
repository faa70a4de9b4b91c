// Writes a checkpoint with fewer experts per layer (README.md).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "frontends/checkpoint/result_folder.h"
#include "frontends/jobs/prune/plan_prune.h"
#include "frontends/jobs/prune/prune_options.h"
#include "ir/base/diagnostics.h"

namespace moec {

struct PruneReport {
  std::string source, out;
  PrunePlan plan;
  std::vector<WrittenFile> files;  // empty after a dry run
  bool dry_run = false;
};

// Validates the whole plan before writing anything. The folder appears only when it is complete and
// reads back as a checkpoint. Errors: those of plan_prune(), ResultFolder, publish_checkpoint() and
// open_source(); output.in_source. Notes and warnings: those of plan_prune(), and prune.not_copied
// (folders inside of the source).
Result<PruneReport> prune_model(const PruneOptions& options);

// The report as JSON (ir/base/report_json.h): sizes before and after, the kept experts as a mask
// for --expert-mask, overlaps of the scores, and files with bytes and digests.
nlohmann::ordered_json prune_json(const PruneReport& report, double seconds);

}  // namespace moec
