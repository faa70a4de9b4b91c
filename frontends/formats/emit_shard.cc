#include "frontends/formats/emit_shard.h"

#include "backends/onnx/emit_onnx.h"
#include "ir/base/invariant.h"

namespace moec {

Result<EmitReport> emit_shard(ShardFormat format, std::span<const ShardWidth> widths,
                              const WeightReader& weights, const EmitOptions& options,
                              const CoremlOptions& coreml) {
  switch (format) {
    case ShardFormat::onnx:
      return emit_onnx(widths, weights, options);
    case ShardFormat::coreml:
      return emit_coreml(widths, weights, options, coreml);
  }
  MOEC_CHECK(false, "unknown shard format");
}

Result<std::vector<WeightView>> weight_views(ShardFormat format, std::span<const ShardWidth> widths,
                                             const CoremlOptions& coreml) {
  switch (format) {
    case ShardFormat::onnx:
      return onnx_weight_views(widths);
    case ShardFormat::coreml:
      return coreml_weight_views(widths, coreml);
  }
  MOEC_CHECK(false, "unknown shard format");
}

}  // namespace moec
