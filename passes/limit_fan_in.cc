#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite_each.h"

namespace moec {
namespace {

// Joins neighbouring parts into `count` parts. The groups differ by at most one part.
std::vector<ValueId> join_groups(Builder& b, const std::vector<ValueId>& parts, size_t count,
                                 int64_t axis) {
  std::vector<ValueId> joined;
  for (size_t i = 0, begin = 0; i < count; ++i) {
    const size_t end = parts.size() * (i + 1) / count;
    joined.push_back(end - begin == 1 ? parts[begin]
                                      : b.concat({&parts[begin], &parts[end]}, axis));
    begin = end;
  }
  return joined;
}

}  // namespace

Result<Shard> limit_fan_in(const Shard& shard, PassContext& context) {
  if (context.options.target.limits.fan_in == 0) return shard;
  // Joins of a single part would not reduce their number, and the loop below would not end.
  const auto most = std::max<size_t>(2, static_cast<size_t>(context.options.target.limits.fan_in));
  auto lower = [&](Builder& b, const Concat& concat, const std::vector<ValueId>& operands) {
    std::vector<ValueId> parts = operands;
    while (parts.size() > most)
      parts = join_groups(b, parts, (parts.size() + most - 1) / most, concat.axis);
    return std::vector<ValueId>{b.concat(std::move(parts), concat.axis)};
  };
  return rewrite_each<Concat>(shard, shard.form, no_scope, lower);
}

}  // namespace moec
