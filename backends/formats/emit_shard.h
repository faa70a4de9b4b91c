// Emits a compiled shard in its target's format.
#pragma once

#include "backends/formats/format.h"

namespace moec {

// Emits the shard. The format's limits override emit.limits. Errors: those of the format's emitter.
Result<EmitReport> emit_shard(ShardFormat format, std::span<const ShardWidth> widths,
                              const WeightReader& weights, const EmitOptions& emit,
                              const FormatOptions& options);

// Returns the views that emit_shard() will read, in order. Errors: those of the emitter's checks of
// the shard.
Result<std::vector<WeightView>> weight_views(ShardFormat format, std::span<const ShardWidth> widths,
                                             const FormatOptions& options);

}  // namespace moec
