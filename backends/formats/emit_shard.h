// Emits a compiled shard in the format of its target.
#pragma once

#include "backends/formats/format.h"

namespace moec {

// The format's own limits take the place of emit.limits. Errors: those of the format's emitter.
Result<EmitReport> emit_shard(ShardFormat format, std::span<const ShardWidth> widths,
                              const WeightReader& weights, const EmitOptions& emit,
                              const FormatOptions& options);

// The views that emit_shard() will ask its reader for, in that order. Errors: those of the emitter
// about the shard.
Result<std::vector<WeightView>> weight_views(ShardFormat format, std::span<const ShardWidth> widths,
                                             const FormatOptions& options);

}  // namespace moec
