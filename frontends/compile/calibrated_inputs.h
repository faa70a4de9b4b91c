// What a calibration knows of the inputs of the weights of a shard.
#pragma once

#include <map>
#include <set>

#include "backends/emit/emit.h"
#include "backends/weights/calibration/calibration_stats.h"
#include "backends/weights/encode/calibrated_encoder.h"
#include "frontends/compile/compile_options.h"
#include "frontends/compile/compile_shard.h"

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
// not. `limit` is what encoding one weight may take.
decltype(EmitOptions::inputs_of) inputs_of_shard(const CalibrationStats& stats, const Plan& plan,
                                                 size_t index, const CompiledShard& compiled,
                                                 const EncoderLimit& limit);

// What encoding a weight with a calibration may take in an export to `targets`: what its memory
// leaves beside the program, its buffers and a usual plan. It does not depend on the jobs, and so
// the bytes of an export do not.
EncoderLimit encoder_limit(const CompileOptions& compile, const ExportResources& resources,
                           size_t targets);

// The weight that takes the most memory to be encoded with a calibration (calibrated_bytes()).
struct EncoderMemory {
  EncoderLimit limit;
  uint64_t bytes = 0;
  int64_t inputs = 0, blocks = 1;
  std::string what;  // its type, its tensor and its shard
  // Shards with weights whose inputs are taken in blocks, and of which sizes: "14336 in 6".
  std::map<std::string, std::set<std::string>> in_blocks;

  // Takes the encoded weights of one more shard into account.
  void take(const Shard& placed);
};

// Names the shards whose inputs are taken in blocks; nothing where there are none.
Diagnostics note_blocks(const EncoderMemory& memory);

}  // namespace moec
