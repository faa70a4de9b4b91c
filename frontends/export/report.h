// report.json: for people who want to know why the shards are what they are.
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

// Writes FOLDER/report.json: how many parameters the model has and a token uses, in which forms the
// weights are stored, the bits that were chosen for tensors of experts, the experts that few tokens
// of the calibration chose and how evenly its text chose them, how the model was cut and why, then
// for each shard what every pass changed and which notes it gave. There are no times in it: the
// same input gives the same bytes. Errors: those of write_listed_file().
Result<manifest::FileRef> write_report(const std::string& folder, const ReportFacts& facts,
                                       bool sha256);

// The same experts as one note for the terminal, which names the first ones; none without any.
Diagnostics note_fallbacks(const CalibrationStats* calibration);

// A note where the text of the calibration is so narrow that less than half of what it says of
// inputs is believed.
Diagnostics note_narrow_text(const CalibrationStats* calibration);

}  // namespace moec
