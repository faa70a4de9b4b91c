#include "passes/passes.h"
#include "passes/unsplittable.h"

namespace moec {
namespace {

// Where an input or a value that is computed passes the limit. Weights are not asked: a
// convolution's weight has its sizes on the first axes, and they are the limit_channels' matter.
Status check(const Shard& shard, ValueId value, std::string_view what, const Target& target) {
  const Dims& dims = shard.type(value).dims;
  for (size_t axis = dims.size() < 2 ? 0 : dims.size() - 2; axis < dims.size(); ++axis)
    if (dims[axis] > target.limits.extent)
      return unsplittable(shard, value, what, dims[axis],
                          fmt::format("elements along axis {}", axis), target.limits.extent, target,
                          "fewer tokens (--tokens), a shorter context (--context), a cache in "
                          "pages (--kv state), or --attention per_head");
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
