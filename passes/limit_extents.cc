#include <algorithm>

#include "passes/passes.h"
#include "passes/unsplittable.h"

namespace moec {
namespace {

// Checks the last two axes of an input or a computed value. Weights are exempt: those of
// convolutions have their sizes on the first axes, and limit_channels splits them.
Status check(const Shard& shard, ValueId value, std::string_view what, const Target& target) {
  const Dims& dims = shard.type(value).dims;
  for (int64_t axis = std::max<int64_t>(0, dims.rank() - 2); axis < dims.rank(); ++axis) {
    if (dims.at(axis) <= target.limits.extent) continue;
    const std::string unit = fmt::format("elements along axis {}", axis);
    return unsplittable(shard, value, {what, dims.at(axis), unit, target.limits.extent}, target,
                        "fewer tokens (--tokens), a shorter context (--context), a cache in pages "
                        "(--kv state), or --attention per_head");
  }
  return {};
}

}  // namespace

Result<Shard> limit_extents(const Shard& shard, PassContext& context) {
  const Target& target = context.options.target;
  if (target.limits.extent == 0) return shard;
  for (ValueId input : shard.inputs) MOEC_TRY(check(shard, input, "an input", target));
  for (const Op& op : shard.ops) {
    if (std::holds_alternative<Weight>(op.data)) continue;
    for (ValueId result : op.results) MOEC_TRY(check(shard, result, mnemonic(op.data), target));
  }
  return shard;
}

}  // namespace moec
