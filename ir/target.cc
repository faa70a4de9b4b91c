#include "ir/target.h"

#include <algorithm>

namespace moec {
namespace {

bool contain(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool contain_op(const std::vector<std::string>& names, const OpData& data) {
  return contain(names, mnemonic(data)) || contain(names, op_kind_name(kind_of(data)));
}

bool concerns_op(const TargetRule& rule, const OpData& data) {
  return rule.condition == RuleCondition::op_is && contain_op(rule.names, data);
}

bool concerns_type(const TargetRule& rule, const Type& type) {
  switch (rule.condition) {
    case RuleCondition::op_is:
      return false;
    case RuleCondition::dtype_is:
      return contain(rule.names, dtype_name(type.dtype));
    case RuleCondition::rank_above:
      return static_cast<int64_t>(type.rank()) > rule.limit;
    case RuleCondition::extent_above:
      return std::any_of(type.dims.begin(), type.dims.end(),
                         [&](int64_t extent) { return extent > rule.limit; });
  }
  return false;
}

}  // namespace

const TargetRule* broken_rule(const Target& target, const Shard& shard, OpId op) {
  const Op& examined = shard.ops[op];
  for (const TargetRule& rule : target.rules) {
    if (!rule.ops.empty() && !contain_op(rule.ops, examined.data)) continue;
    if (concerns_op(rule, examined.data)) return &rule;
    for (ValueId result : examined.results)
      if (concerns_type(rule, shard.type(result))) return &rule;
  }
  return nullptr;
}

}  // namespace moec
