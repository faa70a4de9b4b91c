#include <algorithm>

#include "ir/graph/rms.h"
#include "passes/passes.h"
#include "passes/rewrite_each.h"

namespace moec {
namespace {

// The narrowest type in which the target may compute the norm. Targets with f16 inputs may also
// compute f32 ops in f16, so the norm must not overflow in f16.
DType least_type(const Shard& shard, DType of_norm) {
  const bool narrow = std::any_of(shard.inputs.begin(), shard.inputs.end(), [&](ValueId input) {
    return shard.type(input).dtype == DType::f16;
  });
  return narrow ? DType::f16 : of_norm;
}

std::vector<ValueId> lower_norm(Builder& b, const RmsNorm& norm,
                                const std::vector<ValueId>& operands) {
  const Type type = b.type(operands[0]);
  ValueId normalised =
      rms_normalise(b, operands[0], kChannelAxis, norm.eps, least_type(b.shard(), type.dtype));
  ValueId w = b.reshape(operands[1], channel_vector_dims(type.layout, channels_of(type)));
  return {b.mul(normalised, w)};
}

}  // namespace

Result<Shard> lower_rms_norm(const Shard& shard, PassContext&) {
  return rewrite_each<RmsNorm>(shard, shard.form, own_scope, lower_norm);
}

}  // namespace moec
