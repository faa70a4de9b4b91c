// Writes report.json, which explains to readers how the shards were made.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "backends/weights/calibration/calibration_stats.h"
#include "frontends/export/export_shards.h"
#include "ir/model/weight_policy.h"
#include "models/plan/cut_options.h"
#include "models/shards/count_parameters.h"

namespace moec {

struct ReportFacts {
  const ParameterCounts& parameters;
  const WeightPolicy& weights;
  const CalibrationStats* calibration;  // may be null
  std::span<const ShardCut> cuts;
  std::span<const ExportedShard> shards;
};

// Writes FOLDER/report.json:
// - the number of parameters, all and active per token;
// - the stored weight forms, and the bits chosen for expert tensors;
// - with a calibration, the experts with few tokens, and how evenly the calibration text uses
//   experts;
// - the cuts and their reasons; per shard, the changes and notes of every pass.
// Contains no times, so that equal inputs give equal bytes. Errors: those of write_listed_file().
Result<manifest::FileRef> write_report(const std::string& folder, const ReportFacts& facts,
                                       bool sha256);

// Returns one note for the terminal that names the first experts with few tokens; empty if there
// are none.
Diagnostics note_fallbacks(const CalibrationStats* calibration);

// Returns a note if the calibration text is so narrow that its moments have a weight below one
// half; otherwise, returns no notes.
Diagnostics note_narrow_text(const CalibrationStats* calibration);

}  // namespace moec
