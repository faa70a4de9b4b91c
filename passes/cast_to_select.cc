#include "passes/passes.h"
#include "passes/rewrite_each.h"

namespace moec {
namespace {

std::vector<ValueId> lower(Builder& b, const Cast& cast, const std::vector<ValueId>& operands) {
  if (b.type(operands[0]).dtype != DType::boolean || !is_float(cast.dtype))
    return {b.emit(cast, operands)};
  ValueId one = b.constant({cast.dtype, {}}, {1}), zero = b.constant({cast.dtype, {}}, {0});
  return {b.select(operands[0], one, zero)};
}

}  // namespace

Result<Shard> cast_to_select(const Shard& shard, PassContext&) {
  return rewrite_each<Cast>(shard, shard.form, no_scope, lower);
}

}  // namespace moec
