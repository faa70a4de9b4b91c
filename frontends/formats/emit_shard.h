// A compiled shard to files, in the format of the target.
#pragma once

#include <span>
#include <vector>

#include "backends/coreml/emit_coreml.h"
#include "backends/files/emit.h"
#include "ir/target/target.h"

namespace moec {

// `coreml` counts with format coreml only. Errors: those of emit_onnx or emit_coreml.
Result<EmitReport> emit_shard(ShardFormat format, std::span<const ShardWidth> widths,
                              const WeightReader& weights, const EmitOptions& options,
                              const CoremlOptions& coreml);

// The views that emit_shard() will ask the reader for, in that order. Errors: those of the emitters
// about the shard.
Result<std::vector<WeightView>> weight_views(ShardFormat format, std::span<const ShardWidth> widths,
                                             const CoremlOptions& coreml);

}  // namespace moec
