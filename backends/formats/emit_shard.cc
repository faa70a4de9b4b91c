#include "backends/formats/emit_shard.h"

namespace moec {

Result<EmitReport> emit_shard(ShardFormat format, std::span<const ShardWidth> widths,
                              const WeightReader& weights, const EmitOptions& emit,
                              const FormatOptions& options) {
  // The format determines the limits, so callers need not set them.
  EmitOptions limited = emit;
  limited.limits = format_of(format).limits;
  return format_of(format).emit(widths, weights, limited, options);
}

Result<std::vector<WeightView>> weight_views(ShardFormat format, std::span<const ShardWidth> widths,
                                             const FormatOptions& options) {
  return format_of(format).weight_views(widths, options);
}

}  // namespace moec
