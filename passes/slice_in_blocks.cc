#include "ir/analysis/fused_forms.h"
#include "passes/passes.h"
#include "passes/rewrite_each.h"

namespace moec {

Result<Shard> slice_in_blocks(const Shard& shard, PassContext& context) {
  const int64_t most = context.options.target.limits.narrow_slice;
  auto in_blocks = [most](Builder& b, const Slice& slice, const std::vector<ValueId>& operands) {
    const ValueId x = operands.front();
    const Op whole{slice, operands, {}};
    if (!is_narrow_slice(b.shard(), whole, most)) return std::vector{b.emit(slice, operands)};
    const Dims& dims = b.type(x).dims;
    const Dims blocks = {1, dims.at(1), dims.at(3) / slice.size, slice.size};
    return std::vector{b.slice(b.reshape(x, blocks), 2, 0, 1)};
  };
  return rewrite_each<Slice>(shard, shard.form, no_scope, in_blocks);
}

}  // namespace moec
