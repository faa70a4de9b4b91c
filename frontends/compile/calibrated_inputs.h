// Finds the calibration statistics of the inputs of weights.
#pragma once

#include <map>
#include <set>

#include "backends/emit/emit.h"
#include "backends/weights/calibration/calibration_stats.h"
#include "backends/weights/encode/calibrated_encoder.h"
#include "frontends/compile/compile_options.h"
#include "frontends/compile/compile_shard.h"

namespace moec {

// Opens the calibration in `folder`; returns null if `folder` is empty. `source` is the path of the
// plan's checkpoint, to which the calibration must belong. Errors: those of
// CalibrationStats::open(); calibrate.other_checkpoint; calibrate.no_use (all weights are floats,
// weights are random, or experts are banks or fused, which combines experts with different inputs).
Result<std::shared_ptr<const CalibrationStats>> open_calibration(const std::string& folder,
                                                                 const Plan& plan,
                                                                 const PassOptions& passes,
                                                                 const std::string& source);

// Returns a function that finds the error metrics of a weight of shard `index` by its view. The
// function returns null for weights without calibrated inputs, which are encoded without
// calibration. The function keeps references to `stats` and `plan`, which must outlive it, but not
// to `compiled`. `limit` bounds the memory for encoding one weight.
decltype(EmitOptions::inputs_of) inputs_of_shard(const CalibrationStats& stats, const Plan& plan,
                                                 size_t index, const CompiledShard& compiled,
                                                 const EncoderLimit& limit);

// Returns the memory limit for encoding one weight with a calibration in an export to `targets`
// targets: the export's memory per target minus 64 MiB for the program, its buffers and a typical
// plan. The limit does not depend on the number of jobs, so neither do the exported bytes.
EncoderLimit encoder_limit(const CompileOptions& compile, const ExportResources& resources,
                           size_t targets);

// Tracks the weight that needs the most memory to encode with a calibration (calibrated_bytes()).
struct EncoderMemory {
  EncoderLimit limit;
  uint64_t bytes = 0;
  int64_t inputs = 0, blocks = 1;
  std::string what;  // type, tensor and shard of that weight
  // Shard with weights that have their inputs split into blocks → "INPUTS in BLOCKS", such as
  // "14336 in 6".
  std::map<std::string, std::set<std::string>> in_blocks;

  // Adds the quantized weights of a shard in form `placed`.
  void take(const Shard& placed);
};

// Returns the note calibrate.blocks, which lists the shards of `in_blocks`; empty if there are
// none.
Diagnostics note_blocks(const EncoderMemory& memory);

}  // namespace moec
