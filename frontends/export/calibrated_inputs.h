// What a calibration knows of the inputs of the weights of a shard.
#pragma once

#include "backends/calibration/calibration_stats.h"
#include "backends/files/emit.h"
#include "frontends/export/compile_shard.h"

namespace moec {

// The calibration in this folder, which must be of the checkpoint of the plan; null without a
// folder. `source` is that of the plan. Errors: those of CalibrationStats::open(),
// calibrate.other_checkpoint, calibrate.no_use where no weight of the plan is encoded, is random,
// or where experts are banks, whose rows have the inputs of several experts.
Result<std::shared_ptr<const CalibrationStats>> open_calibration(const std::string& folder,
                                                                 const Plan& plan,
                                                                 const PassOptions& passes,
                                                                 const std::string& source);

// Finds the inputs of the weights of shard `index` by their views. Weights that the calibration has
// no inputs of are encoded without it. `compiled` may end before the result; `stats` and `plan` may
// not.
decltype(EmitOptions::inputs_of) inputs_of_shard(const CalibrationStats& stats, const Plan& plan,
                                                 size_t index, const CompiledShard& compiled);

// The weight that takes the most memory to be encoded with a calibration (calibrated_bytes()).
struct EncoderMemory {
  uint64_t bytes = 0;
  int64_t inputs = 0;
  std::string what;  // its type, its tensor and its shard

  // Takes the encoded weights of one more shard into account.
  void take(const Shard& placed);
};

}  // namespace moec
